// Products of a few rows with a matrix of quantized weights: decoding. As in
// linear.cu, producers bring the weights through a ring in shared memory, as they
// lie in DRAM, and consumers multiply on tensor cores, for which they widen them
// to 16 bits in registers. The scale of a row is multiplied with its sums when
// they are done; the scales and zero points of groups come through the ring too,
// and each group is summed by itself before it is multiplied by its scale.
//
// The host defines the shapes of the rings, NARROW_1 to NARROW_32 by the largest
// batch: NT, RT, KS, STAGES, XR, as linear.cu has them, and NARROW_DEEP_1 to 32.

#ifdef QUANTIZED

struct NarrowArgs {
  LinearArgs l;
  const void *scales; // quantized.cuh
  const u8 *zeros;
};

template <int NT, int RT, int KS, int STAGES, int XR, Out OUT>
struct Narrow {
  static constexpr int ROWS = 16 * RT;
  static constexpr int BYTES = KS * QUANTIZED / 8; // of a row
  static constexpr int PITCH = BYTES + 64;
  static constexpr int XPITCH = KS * 2 + 64;
  static constexpr int GROUPS = QUANTIZED == 4 ? KS / GROUP_INPUTS : 0;
  static constexpr int SCALES = ROWS * PITCH + XR * XPITCH; // where they begin
  static constexpr int ZEROS = SCALES + GROUPS * ROWS * 2;
  static constexpr int STAGE = (ZEROS + GROUPS * ROWS / 2 + 15) / 16 * 16;
  static constexpr int SLICES = CONSUMERS / RT;      // warps that share a tile of rows
  static constexpr int UNITS = KS / SLICES / UNIT;   // a warp and stage
  static constexpr int RED = NT * 8 * RED_PITCH;     // floats of one warp's sums
  static constexpr int PIECES = BYTES / 16;          // of a row
  static constexpr int XPIECES = KS / 8;
  static constexpr int SUMS = RT * NT * 128;         // of a tile
  static constexpr int CHAINS = NT == 1 ? 2 : 1;     // of sums that do not wait for each other
  static constexpr int OUTPUTS = OUT == SWIGLU ? ROWS / 2 : ROWS;
  static_assert(UNITS * SLICES * UNIT == KS && BYTES % 128 == 0, "a stage divides among the warps");

  const NarrowArgs &a;
  u8 *ring;
  u64 *full, *empty; // of each slot: filled, and free again
  int items;         // tiles and their parts
  bool *last;        // this block has the last part of a tile
  float *of_rows;    // [ROWS], scales of the tile's rows where weights have 8 bits

  // A Cursor is a stage's place in the weights and in the ring, as linear.cu's.
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

  __device__ __forceinline__ Cursor first(u32 phase) const {
    Cursor c;
    c.slot = 0, c.phase = phase;
    c.enter(a.l, blockIdx.x);
    return c;
  }

  // row is the row of the weights that row j of a tile holds; n is a multiple of 8.
  __device__ __forceinline__ int row(int tile, int j) const {
    if (OUT == SWIGLU) {
      int r = min((tile * RT + j / 16) * 8, a.l.n - 8) + j % 8;
      return j % 16 < 8 ? r : a.l.n + r;
    }
    return min(tile * ROWS + j / 8 * 8, a.l.n - 8) + j % 8;
  }

  __device__ __forceinline__ int rows() const { return OUT == SWIGLU ? 2 * a.l.n : a.l.n; }

  // The producers take PASS rows at a time, a thread always the same column of them.
  // As in linear.cu, there is one warp of them on each scheduler, so instructions
  // count: addresses of a whole tile are one product and sum each. (With row and
  // column of each copy found anew, a stage took 2000 cycles and more of them, of
  // about 800 that DRAM takes.)
  static constexpr int PASS = PRODUCERS * WARP / PIECES;
  static constexpr int XCOLUMNS = XPIECES < PRODUCERS * WARP ? XPIECES : PRODUCERS * WARP; // of threads
  static constexpr int XPASS = PRODUCERS * WARP / XCOLUMNS;
  static_assert(PASS >= 1 && 16 % PASS == 0 && XPIECES % XCOLUMNS == 0 && GROUPS * (ROWS / 8) <= PRODUCERS * WARP, "a pass of the producers");

  __device__ __forceinline__ void copy_weights(const Cursor &c, int thread, u64 policy) const {
    int r0 = thread / PIECES, width = a.l.k / 8 * QUANTIZED, at = c.k / 8 * QUANTIZED + thread % PIECES * 16;
    u32 to = shared_address(ring) + c.slot * STAGE + r0 * PITCH + thread % PIECES * 16;
    const u8 *w = (const u8 *)a.l.w;
    if (QUANTIZED == 4) copy_groups(c, thread);
    if (at >= width) return;
    if ((c.tile + 1) * OUTPUTS > a.l.n) { // the last tile, in part
      for (int j = 0; j < ROWS; j += PASS) copy16_once(to + j * PITCH, w + (u64)row(c.tile, j + r0) * width + at, policy);
      return;
    }
    const u8 *from = w + (u64)(c.tile * OUTPUTS + (OUT == SWIGLU ? r0 % 8 : r0)) * width + at;
    const u8 *up = from + (u64)a.l.n * width;
    if (OUT == SWIGLU && r0 >= 8) from = up; // PASS is 16
#pragma unroll
    for (int j = 0; j < ROWS; j += PASS) {
      bool second = OUT == SWIGLU && j % 16 >= 8;
      int down = OUT == SWIGLU ? j / 16 * 8 + j % 8 : j;
      copy16_once(to + j * PITCH, (second ? up : from) + (u64)((u32)down * (u32)width), policy);
    }
  }

  // copy_groups copies scales and zero points, a thread those of 8 rows.
  __device__ __forceinline__ void copy_groups(const Cursor &c, int thread) const {
    int g = thread / (ROWS / 8), group = c.k / GROUP_INPUTS + g;
    if (g >= GROUPS || group >= a.l.k / GROUP_INPUTS) return;
    u32 to = shared_address(ring) + c.slot * STAGE;
    u64 from = (u64)((u32)group * (u32)rows()) + row(c.tile, thread % (ROWS / 8) * 8);
    copy16(to + SCALES + thread * 16, (const bf16 *)a.scales + from);
    copy4(to + ZEROS + thread * 4, a.zeros + from / 2);
  }

  __device__ __forceinline__ void copy_inputs(const Cursor &c, int thread) const {
    int r0 = thread / XCOLUMNS, col = c.k + thread % XCOLUMNS * 8;
    u32 to = shared_address(ring) + c.slot * STAGE + ROWS * PITCH + r0 * XPITCH + thread % XCOLUMNS * 16;
#pragma unroll
    for (int i = 0; i < XPIECES; i += XCOLUMNS) {
      if (col + i * 8 >= a.l.k) break;
#pragma unroll
      for (int j = 0; j < XR; j += XPASS)
        if (j + r0 < a.l.batch) copy16(to + j * XPITCH + i * 16, a.l.x + (u64)((u32)(j + r0) * (u32)a.l.k) + col + i * 8);
    }
    barrier_arrive_copied(full + c.slot);
  }

  // produce fills the ring, of which the first round does not wait for the kernel
  // ahead, and lets the one behind start, as linear.cu's does.
  __device__ void produce(int thread) const {
    u64 policy = evict_first();
    Cursor w = first(1), x = w;
    int ahead = 0;
    for (; ahead < STAGES && w.item < items; ahead++, w.next(a.l)) copy_weights(w, thread, policy);
    let_next_start();
    after_previous();
    for (; ahead > 0; ahead--, x.next(a.l)) copy_inputs(x, thread);
    for (; w.item < items; w.next(a.l)) {
      barrier_wait(empty + w.slot, w.phase);
      copy_weights(w, thread, policy);
      copy_inputs(w, thread);
    }
  }

  // multiply adds a unit's products. w points to the lane's 16 bytes of row g, x to
  // its first inputs of the first sequence.
  __device__ __forceinline__ void multiply(float sum[NT][4], const u8 *w, const u8 *x, const u8 *slot, int unit, int row) const {
    int g = threadIdx.x % WARP / 4;
    uint4 p = *(const uint4 *)w, q = *(const uint4 *)(w + 8 * PITCH);
#if QUANTIZED == 8
    float other[NT][4] = {}; // of the second chain, if there are two
#pragma unroll
    for (int j = 0; j < STEPS; j++) {
      u32 m[4], o[4];
      pairs(j ? p.z : p.x, m[0], m[1]), pairs(j ? p.w : p.y, m[2], m[3]);
      pairs(j ? q.z : q.x, o[0], o[1]), pairs(j ? q.w : q.y, o[2], o[3]);
#pragma unroll
      for (int n = 0; n < NT; n++) {
        uint4 v = *(const uint4 *)(x + j * 64 + min(n * 8 + g, XR - 1) * XPITCH);
        mma(sum[n], m[0], o[0], m[1], o[1], v.x, v.y);
        mma(CHAINS > 1 ? other[n] : sum[n], m[2], o[2], m[3], o[3], v.z, v.w);
      }
    }
#pragma unroll
    for (int i = 0; i < 4 && CHAINS > 1; i++) sum[0][i] += other[0][i];
#else
    const bf16 *scales = (const bf16 *)(slot + SCALES) + unit * ROWS + row;
    const u8 *zeros = slot + ZEROS + (unit * ROWS + row) / 2;
    u32 zp = minus_zero(zeros[0] >> row % 2 * 4 & 15), zq = minus_zero(zeros[4] >> row % 2 * 4 & 15);
    float group[CHAINS][NT][4] = {};
    const u32 *ps = &p.x, *qs = &q.x;
#pragma unroll
    for (int j = 0; j < STEPS; j++) {
      u32 m[4], o[4];
      pairs(ps[j], zp, m), pairs(qs[j], zq, o);
#pragma unroll
      for (int n = 0; n < NT; n++) {
        uint4 v = *(const uint4 *)(x + j * 64 + min(n * 8 + g, XR - 1) * XPITCH);
        mma(group[0][n], m[0], o[0], m[1], o[1], v.x, v.y);
        mma(group[CHAINS - 1][n], m[2], o[2], m[3], o[3], v.z, v.w);
      }
    }
    float sp = wide(scales[0]), sq = wide(scales[8]);
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) group[0][n][i] += CHAINS > 1 ? group[CHAINS - 1][n][i] : 0.f;
      sum[n][0] += sp * group[0][n][0], sum[n][1] += sp * group[0][n][1];
      sum[n][2] += sq * group[0][n][2], sum[n][3] += sq * group[0][n][3];
    }
#endif
  }

  __device__ void consume(float *red, const float *scale) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int part = warp % RT, first_unit = warp / RT * UNITS;
    Cursor c = first(0);
    while (c.item < items) {
      int item = c.item, tile = c.tile;
      float sum[NT][4] = {}, of_row = 0.f; // which comes from DRAM while the stages do
      if (QUANTIZED == 8 && threadIdx.x < ROWS) of_row = ((const float *)a.scales)[row(tile, threadIdx.x)];
      while (c.item == item) {
        int k = c.k + first_unit * UNIT;
        barrier_wait(full + c.slot, c.phase);
        const u8 *slot = ring + c.slot * STAGE;
        const u8 *w = slot + (part * 16 + g) * PITCH + first_unit * 64 + t * 16;
        const u8 *x = slot + ROWS * PITCH + (first_unit * UNIT + t * 8) * 2;
        if (k + UNITS * UNIT <= a.l.k) { // so that no load waits for the unit before
#pragma unroll
          for (int u = 0; u < UNITS; u++) multiply(sum, w + u * 64, x + u * UNIT * 2, slot, first_unit + u, part * 16 + g);
        } else {
          for (int u = 0; u < UNITS && k + u * UNIT < a.l.k; u++) multiply(sum, w + u * 64, x + u * UNIT * 2, slot, first_unit + u, part * 16 + g);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + c.slot);
        c.next(a.l);
      }
      if (QUANTIZED == 8 && threadIdx.x < ROWS) of_rows[threadIdx.x] = of_row;
      float *mine = red + warp * RED;
#pragma unroll
      for (int n = 0; n < NT; n++) {
        float *col = mine + (n * 8 + 2 * t) * RED_PITCH + g;
        col[0] = sum[n][0], col[RED_PITCH] = sum[n][1], col[8] = sum[n][2], col[RED_PITCH + 8] = sum[n][3];
      }
      sync_threads_of(1, CONSUMERS * WARP);
      if (a.l.parts == 1 || leave(red, item, tile)) finish(red, scale, tile);
      sync_threads_of(1, CONSUMERS * WARP);
    }
  }

  // leave writes the sums of one part where other blocks see them, and reports
  // whether they were the last of the tile.
  __device__ bool leave(const float *red, int item, int tile) const {
    float *to = a.l.partial + (u64)item * SUMS;
    for (int i = threadIdx.x; i < SUMS; i += CONSUMERS * WARP) __stcg(to + i, of_warps(red, i / (16 * NT * 8), i / 16 % (NT * 8), i % 16));
    __threadfence();
    sync_threads_of(1, CONSUMERS * WARP);
    if (threadIdx.x == 0) {
      *last = atomicAdd(a.l.arrived + tile, 1) == a.l.parts - 1;
      if (*last) a.l.arrived[tile] = 0;
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

  // total is the whole sum of row r of a tile's part and a sequence.
  __device__ __forceinline__ float total(const float *red, int tile, int part, int seq, int r) const {
    float s = 0.f;
    if (a.l.parts == 1) {
      s = of_warps(red, part, seq, r);
    } else {
      const float *from = a.l.partial + (u64)tile * a.l.parts * SUMS + (part * NT * 8 + seq) * 16 + r;
      for (int i = 0; i < a.l.parts; i++) s += __ldcg(from + (u64)i * SUMS);
    }
    return QUANTIZED == 8 ? s * of_rows[part * 16 + r] : s;
  }

  // finish writes the results of one tile; 16 neighbouring threads have the rows of
  // one sequence.
  __device__ __forceinline__ void finish(const float *red, const float *scale, int tile) const {
    const LinearArgs &l = a.l;
    for (int i = threadIdx.x; i < RT * NT * 128; i += CONSUMERS * WARP) {
      int r = i % 16, seq = i / 16 % (NT * 8), part = i / (16 * NT * 8);
      if (OUT == SWIGLU) {
        int o = (tile * RT + part) * 8 + r;
        if (r >= 8 || seq >= l.batch || o >= l.n) continue;
        float gate = total(red, tile, part, seq, r) * scale[seq], up = total(red, tile, part, seq, r + 8) * scale[seq];
        l.h[(u64)seq * l.n + o] = narrow(activate(gate) * up);
        continue;
      }
      int o = tile * ROWS + part * 16 + r;
      bool there = seq < l.batch && o < l.n;
      u64 at = (u64)seq * l.n + o;
      if (OUT == SCORES || OUT == PLAIN) {
        if (there) l.y[at] = total(red, tile, part, seq, r) * (OUT == SCORES ? scale[seq] : 1.f);
        continue;
      }
      float x = 0.f;
      if (there) {
        x = l.y[at] + total(red, tile, part, seq, r);
        l.y[at] = x;
        l.h[at] = narrow(x * gain(wide(l.norm[o])));
      }
      float ss = x * x;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (r == 0 && there) l.sums[(u64)seq * (l.n / 16) + o / 16] = ss;
    }
  }

  // reciprocals are of the norms of the inputs.
  __device__ __forceinline__ void reciprocals(float *scale) const {
    for (int seq = threadIdx.x / WARP; seq < a.l.batch; seq += CONSUMERS) {
      float ss = 0.f;
      for (int i = threadIdx.x % WARP; i < a.l.k / 16; i += WARP) ss += a.l.squares[(u64)seq * (a.l.k / 16) + i];
      ss = warp_sum(ss);
      if (threadIdx.x % WARP == 0) scale[seq] = rsqrtf(ss / a.l.k + a.l.eps);
    }
    sync_threads_of(1, CONSUMERS * WARP);
  }

  __device__ static void run(const NarrowArgs &a) {
    DYNAMIC_SHARED(ring);
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ float red[CONSUMERS * RED];
    __shared__ float scale[NT * 8];
    __shared__ float of_rows[ROWS];
    __shared__ bool last;
    Narrow l = {a, ring, full, empty, (a.l.n + OUTPUTS - 1) / OUTPUTS * a.l.parts, &last, of_rows};
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, PRODUCERS * WARP), barrier_init(empty + i, CONSUMERS);
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS * WARP) {
      l.produce(threadIdx.x - CONSUMERS * WARP);
      return;
    }
    after_previous();
    if (OUT == SCORES || OUT == SWIGLU) l.reciprocals(scale);
    l.consume(red, scale);
  }
};

#define NARROW(name, SHAPE, OUT)                                                                                           \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 2)                                           \
      name(const bf16 *w, const bf16 *x, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, \
           const bf16 *norm, int parts, float *partial, u32 *arrived, const void *scales, const u8 *zeros) {               \
    NarrowArgs a = {{w, x, n, k, batch, eps, squares, y, h, sums, norm, parts, partial, arrived}, scales, zeros};          \
    Narrow<SHAPE, OUT>::run(a);                                                                                            \
  }

#if SANDWICH || RANKS > 1
#define NARROW_PLAIN(rows) NARROW(narrow_plain_##rows, NARROW_DEEP_##rows, PLAIN)
#else
#define NARROW_PLAIN(rows)
#endif

#define NARROWS(rows)                                          \
  NARROW(narrow_scores_##rows, NARROW_##rows, SCORES)          \
  NARROW(narrow_residual_##rows, NARROW_DEEP_##rows, RESIDUAL) \
  NARROW(narrow_swiglu_##rows, NARROW_##rows, SWIGLU)          \
  NARROW_PLAIN(rows)

NARROWS(1)
NARROWS(8)
NARROWS(16)
NARROWS(32)

#endif // QUANTIZED
