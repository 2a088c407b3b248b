// Products of a few rows with a weight matrix: decoding. The weights are read
// once, which is all the time there is, so everything serves keeping their
// stream from DRAM unbroken:
//
//   - Four warps copy pieces of the weights into a ring in shared memory, as far
//     ahead as the ring is long. They begin while the kernel ahead in the stream
//     still runs; only the inputs wait for its end.
//   - Eight warps multiply on tensor cores: weights are the 16 rows of an mma,
//     the batch its 8 columns. The order in which mma sums k is free as long as
//     both sides agree, so each lane takes 8 consecutive k in one 16-byte load.
//   - Norm, activation, residual sum and what the next norm needs are done to
//     the sums on their way out.
//   - Where the tiles are too few for the multiprocessors, each is cut along k
//     into `parts`, and the last block to finish one of them adds them up, in
//     the order of k: a sum is the same every time.
//
// Rows of the ring are 64 bytes apart from a multiple of 128, so that the 16-byte
// loads of two neighbouring rows meet no bank twice. The host defines the shapes
// of the rings, SHAPE_1 to SHAPE_16 by the largest batch: NT, RT, KS, STAGES, XR, and
// DEEP_1 to DEEP_16, the STAGES of products that add to the stream.

#define CONSUMERS 8
#define PRODUCERS 4
#define RED_PITCH 20 // floats of a column of 16 sums: rows 2t of lanes t fall on banks 8 apart

enum Out { SCORES, RESIDUAL, SWIGLU, PLAIN };

struct LinearArgs {
  const bf16 *w;       // [n][k]; for SWIGLU gate[n][k] and then up[n][k]
  const bf16 *x;       // [batch][k]
  int n, k, batch;
  float eps;
  const float *squares; // [batch][k/16], of the norm ahead of this product
  float *y;             // SCORES, PLAIN: [batch][n]; RESIDUAL: the stream, [batch][n]
  bf16 *h;              // RESIDUAL: the stream times norm; SWIGLU: [batch][n]
  float *sums;          // RESIDUAL: [batch][n/16], squares for the next norm
  const bf16 *norm;     // RESIDUAL: of the next norm
  int parts;            // of k that a tile is cut into; 1 uses neither of the next
  float *partial;       // [tiles][parts][16*RT][8*NT]: rows of a tile fastest
  u32 *arrived;         // [tiles], zero before and after
};

// RT tiles of 16 rows and KS columns of weights, and as many columns of XR
// inputs, make one stage of the ring; NT is the batch in eights.
template <int NT, int RT, int KS, int STAGES, int XR, Out OUT>
struct Linear {
  static constexpr int ROWS = 16 * RT;
  static constexpr int PITCH = KS * 2 + 64;
  static constexpr int STAGE = (ROWS + XR) * PITCH;
  static constexpr int SLICES = CONSUMERS / RT;  // warps that share a tile of rows
  static constexpr int UNITS = KS / SLICES / 32; // of 32 columns, a warp and stage
  static constexpr int RED = NT * 8 * RED_PITCH; // floats of one warp's sums
  static constexpr int CHUNKS = KS / 8;          // 16-byte pieces of a row
  static_assert(UNITS * SLICES * 32 == KS, "a stage divides among the warps");

  static constexpr int SUMS = RT * NT * 128;     // of a tile

  const LinearArgs &a;
  u8 *ring;
  u64 *full, *empty; // of each slot: filled, and free again
  int items;         // tiles and their parts
  bool *last;        // this block has the last part of a tile

  // A Cursor is a stage's place in the weights and in the ring. An item is one
  // part of a tile; the parts of a tile follow each other.
  struct Cursor {
    int item, tile, k, end, slot;
    u32 phase;
    __device__ __forceinline__ void enter(const LinearArgs &a, int i) {
      item = i, tile = i, k = 0, end = a.k;
      if (a.parts == 1) return;
      int stages = (a.k + KS - 1) / KS, part = i % a.parts;
      tile = i / a.parts, k = part * stages / a.parts * KS, end = min(a.k, (part + 1) * stages / a.parts * KS);
    }
    __device__ __forceinline__ void next(const LinearArgs &a) {
      if (++slot == STAGES) slot = 0, phase ^= 1;
      if ((k += KS) >= end) enter(a, item + gridDim.x);
    }
  };

  // first is the block's first stage; a fresh barrier counts the phase before its
  // first as done.
  __device__ __forceinline__ Cursor first(u32 phase) const {
    Cursor c;
    c.slot = 0, c.phase = phase;
    c.enter(a, blockIdx.x);
    return c;
  }

  // row is the row of the weights that row j of stage tile holds.
  __device__ __forceinline__ int row(int tile, int j) const {
    if (OUT == SWIGLU) {
      int r = min((tile * RT + j / 16) * 8 + j % 8, a.n - 1);
      return j % 16 < 8 ? r : a.n + r;
    }
    return min(tile * ROWS + j, a.n - 1);
  }

  // The producers take PASS rows at a time, a thread always the same column of
  // them. There is one warp of them on each scheduler, so instructions count:
  // addresses of a whole tile are one product and sum each.
  static constexpr int PASS = PRODUCERS * WARP / CHUNKS;
  static constexpr int OUTPUTS = OUT == SWIGLU ? 8 * RT : ROWS; // rows of the result, a stage
  static_assert(PASS >= 1 && PASS <= 8, "a pass of the producers lies within one matrix");

  __device__ __forceinline__ void copy_weights(const Cursor &c, int thread, u64 policy) const {
    int r0 = thread / CHUNKS, col = c.k + thread % CHUNKS * 8;
    if (col >= a.k) return;
    u32 to = shared_address(ring) + c.slot * STAGE + r0 * PITCH + thread % CHUNKS * 16;
    if ((c.tile + 1) * OUTPUTS > a.n) { // the last tile, in part
      for (int j = 0; j < ROWS; j += PASS) copy16_once(to + j * PITCH, a.w + (u64)row(c.tile, j + r0) * a.k + col, policy);
      return;
    }
    const bf16 *from = a.w + (u64)(c.tile * OUTPUTS + r0) * a.k + col;
    const bf16 *up = from + (u64)a.n * a.k;
#pragma unroll
    for (int j = 0; j < ROWS; j += PASS) {
      bool second = OUT == SWIGLU && j % 16 >= 8;
      int down = OUT == SWIGLU ? j / 16 * 8 + j % 8 : j;
      copy16_once(to + j * PITCH, (second ? up : from) + (u64)((u32)down * (u32)a.k), policy);
    }
  }

  __device__ __forceinline__ void copy_inputs(const Cursor &c, int thread) const {
    int r0 = thread / CHUNKS, col = c.k + thread % CHUNKS * 8;
    u32 to = shared_address(ring) + c.slot * STAGE + (ROWS + r0) * PITCH + thread % CHUNKS * 16;
    if (col < a.k) {
#pragma unroll
      for (int j = 0; j < XR; j += PASS)
        if (j + r0 < a.batch) copy16(to + j * PITCH, a.x + (u64)((u32)(j + r0) * (u32)a.k) + col);
    }
    barrier_arrive_copied(full + c.slot);
  }

  // produce fills the ring. Its first round of weights does not wait for the
  // kernel ahead, and then the kernel behind may start: its blocks find room where
  // those of the kernel ahead end, one on a multiprocessor (linearShapes).
  __device__ void produce(int thread) const {
    u64 policy = evict_first();
    Cursor w = first(1), x = w;
    int ahead = 0;
    for (; ahead < STAGES && w.item < items; ahead++, w.next(a)) copy_weights(w, thread, policy);
    let_next_start();
    after_previous();
    for (; ahead > 0; ahead--, x.next(a)) copy_inputs(x, thread);
    for (; w.item < items; w.next(a)) {
      barrier_wait(empty + w.slot, w.phase);
      copy_weights(w, thread, policy);
      copy_inputs(w, thread);
    }
  }

  __device__ void consume(float *red, const float *scale) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int part = warp % RT, base = warp / RT * UNITS * 32;
    Cursor c = first(0);
    while (c.item < items) {
      int item = c.item, tile = c.tile;
      float sum[NT][4] = {};
      while (c.item == item) {
        int k = c.k;
        barrier_wait(full + c.slot, c.phase);
        const u8 *w = ring + c.slot * STAGE + (part * 16 + g) * PITCH + (base + t * 8) * 2;
        const u8 *x = ring + c.slot * STAGE + ROWS * PITCH + (base + t * 8) * 2;
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
          if (k + base + u * 32 >= a.k) break;
          uint4 p = *(const uint4 *)(w + u * 64), q = *(const uint4 *)(w + u * 64 + 8 * PITCH);
#pragma unroll
          for (int n = 0; n < NT; n++) {
            uint4 v = *(const uint4 *)(x + u * 64 + min(n * 8 + g, XR - 1) * PITCH);
            mma(sum[n], p.x, q.x, p.y, q.y, v.x, v.y);
            mma(sum[n], p.z, q.z, p.w, q.w, v.z, v.w);
          }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + c.slot);
        c.next(a);
      }
      float *mine = red + warp * RED;
#pragma unroll
      for (int n = 0; n < NT; n++) {
        float *col = mine + (n * 8 + 2 * t) * RED_PITCH + g;
        col[0] = sum[n][0], col[RED_PITCH] = sum[n][1], col[8] = sum[n][2], col[RED_PITCH + 8] = sum[n][3];
      }
      sync_threads_of(1, CONSUMERS * WARP);
      if (a.parts == 1 || leave(red, item, tile)) finish(red, scale, tile);
      sync_threads_of(1, CONSUMERS * WARP);
    }
  }

  // leave writes the sums of one part where other blocks see them, and reports
  // whether they were the last of the tile.
  __device__ bool leave(const float *red, int item, int tile) const {
    float *to = a.partial + (u64)item * SUMS;
    for (int i = threadIdx.x; i < SUMS; i += CONSUMERS * WARP) __stcg(to + i, of_warps(red, i / (16 * NT * 8), i / 16 % (NT * 8), i % 16));
    __threadfence();
    sync_threads_of(1, CONSUMERS * WARP);
    if (threadIdx.x == 0) {
      *last = atomicAdd(a.arrived + tile, 1) == a.parts - 1;
      if (*last) a.arrived[tile] = 0;
    }
    sync_threads_of(1, CONSUMERS * WARP);
    if (!*last) return false;
    __threadfence();
    return true;
  }

  // of_warps is the sum over the warps that shared tile part, in a fixed order.
  __device__ static __forceinline__ float of_warps(const float *red, int part, int seq, int r) {
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < SLICES; i++) s += red[(i * RT + part) * RED + seq * RED_PITCH + r];
    return s;
  }

  // total is the whole sum of a row and a sequence.
  __device__ __forceinline__ float total(const float *red, int tile, int part, int seq, int r) const {
    if (a.parts == 1) return of_warps(red, part, seq, r);
    const float *from = a.partial + (u64)tile * a.parts * SUMS + (part * NT * 8 + seq) * 16 + r;
    float s = 0.f;
    for (int i = 0; i < a.parts; i++) s += __ldcg(from + (u64)i * SUMS);
    return s;
  }

  // finish writes the results of one tile; 16 neighbouring threads have the
  // rows of one sequence.
  __device__ __forceinline__ void finish(const float *red, const float *scale, int tile) const {
    for (int i = threadIdx.x; i < RT * NT * 128; i += CONSUMERS * WARP) {
      int r = i % 16, seq = i / 16 % (NT * 8), part = i / (16 * NT * 8);
      if (OUT == SWIGLU) {
        int o = (tile * RT + part) * 8 + r;
        if (r >= 8 || seq >= a.batch || o >= a.n) continue;
        float gate = total(red, tile, part, seq, r) * scale[seq], up = total(red, tile, part, seq, r + 8) * scale[seq];
        a.h[(u64)seq * a.n + o] = narrow(activate(gate) * up);
        continue;
      }
      int o = tile * ROWS + part * 16 + r;
      if (OUT == SCORES || OUT == PLAIN) {
        if (seq < a.batch && o < a.n) a.y[(u64)seq * a.n + o] = total(red, tile, part, seq, r) * (OUT == SCORES ? scale[seq] : 1.f);
        continue;
      }
      float x = 0.f;
      if (seq < a.batch && o < a.n) {
        u64 at = (u64)seq * a.n + o;
        x = a.y[at] + total(red, tile, part, seq, r);
        a.y[at] = x;
        a.h[at] = narrow(x * gain(wide(a.norm[o])));
      }
      float ss = x * x;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (r == 0 && seq < a.batch && o < a.n) a.sums[(u64)seq * (a.n / 16) + o / 16] = ss;
    }
  }

  // scales are the reciprocal norms of the inputs.
  __device__ __forceinline__ void scales(float *scale) const {
    for (int seq = threadIdx.x / WARP; seq < a.batch; seq += CONSUMERS) {
      float ss = 0.f;
      for (int i = threadIdx.x % WARP; i < a.k / 16; i += WARP) ss += a.squares[(u64)seq * (a.k / 16) + i];
      ss = warp_sum(ss);
      if (threadIdx.x % WARP == 0) scale[seq] = rsqrtf(ss / a.k + a.eps);
    }
    sync_threads_of(1, CONSUMERS * WARP);
  }

  __device__ static void run(const LinearArgs &a) {
    DYNAMIC_SHARED(ring);
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ float red[CONSUMERS * RED];
    __shared__ float scale[NT * 8];
    __shared__ bool last;
    Linear l = {a, ring, full, empty, (a.n + OUTPUTS - 1) / OUTPUTS * a.parts, &last};
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, PRODUCERS * WARP), barrier_init(empty + i, CONSUMERS);
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS * WARP) {
      l.produce(threadIdx.x - CONSUMERS * WARP);
      return;
    }
    after_previous();
    if (OUT == SCORES || OUT == SWIGLU) l.scales(scale);
    l.consume(red, scale);
  }
};

#define LINEAR(name, SHAPE, OUT)                                                                                           \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 2)                                           \
      name(const bf16 *w, const bf16 *x, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, \
           const bf16 *norm, int parts, float *partial, u32 *arrived) {                                                    \
    LinearArgs a = {w, x, n, k, batch, eps, squares, y, h, sums, norm, parts, partial, arrived};                           \
    Linear<SHAPE, OUT>::run(a);                                                                                            \
  }

#if SANDWICH || RANKS > 1
#define LINEAR_PLAIN(rows) LINEAR(linear_plain_##rows, DEEP_##rows, PLAIN)
#else
#define LINEAR_PLAIN(rows)
#endif

#define LINEARS(rows)                                       \
  LINEAR(linear_scores_##rows, SHAPE_##rows, SCORES)        \
  LINEAR(linear_residual_##rows, DEEP_##rows, RESIDUAL)     \
  LINEAR(linear_swiglu_##rows, SHAPE_##rows, SWIGLU)        \
  LINEAR_PLAIN(rows)

LINEARS(1)
LINEARS(8)
LINEARS(16)
