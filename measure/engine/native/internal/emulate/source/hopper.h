// This file replaces the functions of hopper.cuh. The products of a warpgroup are computed when a
// thread waits for them, from the registers as they were at the wgmma and from shared memory as it is
// at the wait. So a missing wait, or memory that is released too early, gives wrong results.

struct Product {
  float *d;
  int columns, add;
  bool registers; // a comes from registers, and b has the values as its inner dimension.
  float rows[2][16];
  u64 a, b;
  u32 group;
};
inline std::vector<Product> products[16][emulated::MOST_THREADS]; // [block of the cluster][thread]
inline u32 product_group[16][emulated::MOST_THREADS];

inline u64 descriptor(u32 at, u32 lead) { return (u64)((at & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }

// matrix_value reads value i of row r of a matrix in rows of 64 values; d's lead is the distance of its blocks.
inline float matrix_value(u64 d, int r, int i) {
  u32 at = (u32)(d & 0x3fff) << 4, lead = (u32)(d >> 16 & 0x3fff) << 4, eight = (u32)(d >> 32 & 0x3fff) << 4;
  at += i / 64 * lead + r / 8 * eight + r % 8 * 128 + i % 64 * 2;
  at ^= (at >> 7 & 7) << 4;
  return value16(*(const bf16 *)shared_pointer(at));
}

enum { PRODUCT = 100, PRODUCTS_BEGIN, PRODUCTS_COMMIT, PRODUCTS_WAIT, TRANSPOSE };
inline void whole_warp(int what) {
  u32 v = 0;
  emulated::meet(0xffffffffu, what, &v, sizeof v);
}

OUT_OF_LINE inline void queue_product(Product p) {
  p.group = product_group[emulated::inside][threadIdx.x];
  products[emulated::inside][threadIdx.x].push_back(p);
}

template <int N>
inline void wgmma_scores(float (&d)[N], u64 a, u64 b, int add) {
  whole_warp(PRODUCT);
  Product p = {d, 2 * N, add, false};
  p.a = a, p.b = b;
  queue_product(p);
}

template <int N>
inline void wgmma_product(float (&d)[N], u64 a, u64 b) {
  wgmma_scores(d, a, b, 1);
}

inline u32 transpose8(u32 v) {
  const emulated::Slots &s = emulated::meet(0xffffffffu, TRANSPOSE, &v, sizeof v);
  int g = lane_id() / 4, t = lane_id() % 4;
  auto value = [&](int row, int col) { return from_lane<u32>(s, row * 4 + col / 2) >> col % 2 * 16 & 0xffff; };
  return value(2 * t, g) | value(2 * t + 1, g) << 16;
}

template <int N>
inline void wgmma_values(float (&d)[N], const u32 (&a)[4], u64 b) {
  const emulated::Slots &s = emulated::meet(0xffffffffu, PRODUCT, a, sizeof a);
  Product p = {d, 2 * N, 1, true};
  p.b = b;
  for (int t = 0; t < 4; t++) {
    const u32 *v = (const u32 *)s[lane_id() / 4 * 4 + t];
    for (int i = 0; i < 4; i++) {
      float *to = &p.rows[i % 2][2 * t + i / 2 * 8];
      to[0] = value16(v[i] & 0xffff), to[1] = value16(v[i] >> 16);
    }
  }
  queue_product(p);
}

inline void make_product(const Product &p) {
  float a[2][16];
  int first = threadIdx.x % 128 / 32 * 16 + lane_id() / 4, t = lane_id() % 4;
  for (int h = 0; h < 2; h++)
    for (int k = 0; k < 16; k++) a[h][k] = p.registers ? p.rows[h][k] : matrix_value(p.a, first + 8 * h, k);
  for (int c = 0; c < p.columns / 4; c++) {
    int column = c / 2 * 8 + 2 * t + c % 2;
    float sum[2] = {};
    for (int k = 0; k < 16; k++) {
      float b = p.registers ? matrix_value(p.b, k, column) : matrix_value(p.b, column, k);
      sum[0] += a[0][k] * b, sum[1] += a[1][k] * b;
    }
    for (int h = 0; h < 2; h++) {
      float *d = &p.d[c / 2 * 4 + 2 * h + c % 2];
      *d = p.add ? *d + sum[h] : sum[h];
    }
  }
}

inline void wgmma_begin() { whole_warp(PRODUCTS_BEGIN); }
inline void wgmma_commit() {
  whole_warp(PRODUCTS_COMMIT);
  product_group[emulated::inside][threadIdx.x]++;
}
template <int N>
inline void wgmma_wait() {
  std::vector<Product> &all = products[emulated::inside][threadIdx.x];
  size_t done = 0;
  while (done < all.size() && all[done].group + N < product_group[emulated::inside][threadIdx.x]) make_product(all[done++]);
  all.erase(all.begin(), all.begin() + done);
  whole_warp(PRODUCTS_WAIT); // Once a lane continues, its whole warp has read its operands.
}
template <int N>
inline void settle(float (&)[N]) {}
inline void show_barriers() {}
template <int N>
inline void take_registers() {}
template <int N>
inline void leave_registers() {}
inline void arrive_at(int barrier, int threads) { emulated::arrive(barrier, threads); }
inline float power_of_2(float v) { return v < -126.f ? 0.f : exp2f(v); }

// A TensorMap has the arguments of the emulated driver's cuTensorMapEncodeTiled: the address, the sizes,
// the strides of the outer two dimensions in bytes, and the box. Values have 16 bits and three
// dimensions, swizzled by 128 bytes.
struct alignas(64) TensorMap {
  u64 at, size[3], stride[2], box[3], words[7];
};
#define __grid_constant__
inline void fetch_map(const TensorMap &) {}

// The emulator takes the bytes that a barrier expects for those that the same thread copies next.
inline u64 *expected_at;
inline u32 expected;
inline void expect_boxes(u64 *b, u32 bytes) {
  if (expected) emulated::fail("fewer bytes are copied than the mbarrier expects");
  expected_at = b, expected = bytes;
}
inline void copy_box(u32 to, const TensorMap &m, int x, int y, int z, u64 *b) {
  u32 bytes = m.box[0] * m.box[1] * m.box[2] * 2;
  if (to % 1024 || m.box[0] != 64 || m.box[2] > 2) emulated::fail("a box that is not aligned, or not of 64 values");
  if (b != expected_at || bytes > expected) emulated::fail("more bytes are copied than the mbarrier expects");
  for (u32 i = 0; i < m.box[1] * m.box[2]; i++)
    for (int c = 0; c < 64; c++) {
      u32 r = i % m.box[1], p = i / m.box[1];
      bool in = x + c >= 0 && (u64)(x + c) < m.size[0] && y + (int)r >= 0 && y + r < m.size[1] && z >= 0 && z + p < m.size[2];
      u32 at = to + i * 128 + c * 2;
      at ^= (at >> 7 & 7) << 4;
      *(bf16 *)shared_pointer(at) = in ? *(const bf16 *)(m.at + (x + c) * 2 + (y + r) * m.stride[0] + (z + p) * m.stride[1]) : 0;
    }
  if ((expected -= bytes) == 0) barrier_arrive(b);
}
