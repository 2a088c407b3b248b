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

// queue_product queues a product of the running thread, and make_products makes those before its last n groups.
void queue_product(Product p);
void make_products(u32 n);
void end_group(); // of products
inline u64 descriptor(u32 at, u32 lead) { return (u64)((at & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }

enum { PRODUCT = 100, PRODUCTS_BEGIN, PRODUCTS_COMMIT, PRODUCTS_WAIT, TRANSPOSE };
inline void whole_warp(int what) {
  u32 v = 0;
  emulated::meet(0xffffffffu, what, &v, sizeof v);
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

inline void wgmma_begin() { whole_warp(PRODUCTS_BEGIN); }
inline void wgmma_commit() {
  whole_warp(PRODUCTS_COMMIT);
  end_group();
}
template <int N>
inline void wgmma_wait() {
  make_products(N);
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
void expect_boxes(u64 *b, u32 bytes);
void copy_box(u32 to, const TensorMap &m, int x, int y, int z, u64 *b);
