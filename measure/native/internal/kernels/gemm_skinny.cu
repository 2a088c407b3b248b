// The skinny GEMM of a decode step with up to 16 sequences. It reads the weights once, and that bounds
// its time, so everything serves an unbroken stream of weights from DRAM:
//
//   - Four warps copy weights into a ring in shared memory, as far ahead as the ring is long. They
//     begin while the kernel before still runs (PDL); only the inputs wait for its end.
//   - Eight warps multiply on tensor cores: weights are the 16 rows of an mma, the batch its 8
//     columns. The order in which mma sums k is free as long as both operands agree, so each lane
//     takes 8 consecutive k in one 16-byte load.
//   - The prologue is RMSNorm of the inputs, as a factor of the sums. The epilogue is SwiGLU, or the
//     residual sum with the sums of squares for the next norm.
//   - If the tiles are too few for the multiprocessors, each is cut along k into `parts` (split-K).
//     The last block to finish a tile adds up its parts in the order of k, so a sum is always the
//     same.
//
// A warp multiplies all rows of a stage by its own columns, so that inputs are loaded once for all
// rows. In odd rows of the ring the 16-byte pieces 4 to 7 of each 8 are swapped with 0 to 3, so that
// the 16-byte loads of two neighbouring rows have no bank conflicts. The host defines the shapes of
// the rings by the largest batch: SKINNY_NORM_1 to SKINNY_NORM_16 are NT, RT, KS, STAGES and XR of the
// plain store, SKINNY_SWIGLU_ those of SwiGLU, and SKINNY_RESIDUAL_ those of the residual sum.

#define CONSUMERS 8
#define PRODUCERS 4
#define RED_PITCH 20 // floats of a column of 16 sums; rows 2t of lanes t then fall on banks 8 apart

enum Epilogue { NORM_STORE, RESIDUAL, SWIGLU, STORE, ALL_REDUCE, HALF_TILES };

struct GemmArgs {
  const bf16 *w;       // [n][k]; for SWIGLU gate[n][k] and then up[n][k]
  const bf16 *x;       // [batch][k]
  int n, k, batch;
  float eps;
  const float *squares; // [batch][k/16], sums of squares of x, for the RMSNorm of the inputs
  float *y;             // NORM_STORE, STORE: [batch][n]; RESIDUAL: the stream, [batch][n]
  bf16 *h;              // RESIDUAL: the stream times norm; SWIGLU: [batch][n]
  float *sums; // RESIDUAL: [batch][n/16], sums of squares for the next norm
  const bf16 *norm; // RESIDUAL: weights of the next norm
  int parts; // parts of k that a tile is cut into; with 1 the next two are not used
  float *partial;       // [units][parts][8*NT][16]
  u32 *arrived;         // [units], zero before and after
#if RANKS > 1
  // ALL_REDUCE adds the sum over the ranks to the stream as RESIDUAL does; without h, y is that sum
  // alone.
  LLBuffers ll;
  u32 *epochs; // [units], the last epoch of each unit's packets
#endif
};

// last_of reports whether the block is the last of so many that store sums for it to add up. It makes
// these visible to all of its consumers. last is shared memory; arrived is 0 before and after.
template <int THREADS = CONSUMERS * WARP>
__device__ __forceinline__ bool last_of(u32 *arrived, int parts, bool *last) {
  __threadfence();
  sync_threads_of(1, THREADS);
  if (threadIdx.x == 0) {
    *last = atomicAdd(arrived, 1) == parts - 1;
    if (*last) *arrived = 0;
  }
  sync_threads_of(1, THREADS);
  if (!*last) return false;
  __threadfence();
  return true;
}

// A Deal is a block's part of a GEMM's rows, in units of 16 weight rows, or of 8. Without split-K each
// block has as many units as any other or one less, in passes of up to RT; in each pass the blocks lie
// side by side.
struct Deal {
  int units, blocks, each, passes;
  __device__ __forceinline__ Deal(int n, int outputs, int tiles, int of = gridDim.x) {
    units = (n + outputs - 1) / outputs, blocks = of;
    each = (units + blocks - 1) / blocks, passes = (each + tiles - 1) / tiles;
  }
  // first is the first unit of a pass for block b; that of block b+1 is its end.
  __device__ __forceinline__ int first(int pass, int b) const {
    int from = min(units, each * pass / passes * blocks), to = min(units, each * (pass + 1) / passes * blocks);
    return from + b * (to - from) / blocks;
  }
};

// RT units of 16 rows and KS columns of weights, and as many columns of XR inputs, are one stage of
// the ring; NT is the batch in groups of 8. HALF_TILES is NORM_STORE by units of 8 rows, which balance
// the blocks better; the other half of an mma is 0.
template <int NT, int RT, int KS, int STAGES, int XR, Epilogue OUT>
struct SkinnyGemm {
  static constexpr int UNIT_ROWS = OUT == HALF_TILES ? 8 : 16; // weight rows
  static constexpr int ROWS = UNIT_ROWS * RT;
  static constexpr int PITCH = KS * 2;
  static constexpr int STAGE = (ROWS + XR) * PITCH;
  static constexpr int UNITS = KS / CONSUMERS / 32; // units of 32 columns for a warp and stage
  static constexpr int CHUNKS = KS / 8;                 // 16-byte pieces of a row
  static constexpr int RED = RT * NT * 8 * RED_PITCH;   // floats of one warp's sums
  static constexpr int COPIES = RT * NT <= 2 ? CONSUMERS : CONSUMERS / 2; // copies of the sums
  static constexpr int OUTPUTS = OUT == SWIGLU ? 8 : UNIT_ROWS; // outputs of a unit
  static constexpr int SUMS = NT * 128; // sums of a unit
  static constexpr int EACH = (RT * NT * 128 + CONSUMERS * WARP - 1) / (CONSUMERS * WARP); // the most results of a thread
  static_assert(UNITS >= 1 && UNITS * CONSUMERS * 32 == KS, "a stage divides among the warps");

  const GemmArgs &a;
  u8 *ring;
  u64 *full, *empty; // Each slot has two barriers: it is full, and it is empty again.
  bool *last; // This block has the last part of a unit.
  Deal deal;
#if RANKS > 1
  u64 **packets; // addresses of the packets of every rank
#endif

  // A Cursor is the place of a stage in the weights and in the ring. Its tile is some units, or one
  // part of one unit; without units none are left.
  struct Cursor {
    int turn, first, units, item, k, end, slot;
    u32 phase;
    __device__ __forceinline__ void enter(const SkinnyGemm &l) {
      const GemmArgs &a = l.a;
      k = 0, end = a.k;
      if (a.parts == 1) {
        units = 0;
        if (turn >= l.deal.passes) return;
        first = l.deal.first(turn, blockIdx.x), units = l.deal.first(turn, blockIdx.x + 1) - first;
        return;
      }
      item = blockIdx.x + turn * gridDim.x, first = item / a.parts, units = first < l.deal.units;
      int stages = (a.k + KS - 1) / KS, part = item % a.parts;
      k = part * stages / a.parts * KS, end = min(a.k, (part + 1) * stages / a.parts * KS);
    }
    __device__ __forceinline__ void next(const SkinnyGemm &l) {
      if (++slot == STAGES) slot = 0, phase ^= 1;
      if ((k += KS) >= end) turn++, enter(l);
    }
    __device__ __forceinline__ int tiles() const { return RT == 1 ? 1 : units; }
  };

  // seldom is a loop that most GEMMs do not run. It is not unrolled beyond batch 1. So the kernels of
  // a layer and of attention are 154 KB of machine code at batch 16 in place of 216, which matters for
  // the instruction cache.
  template <class Body>
  __device__ static __forceinline__ void seldom(int from, int to, int step, Body body) {
    if constexpr (XR == 1) {
      for (int i = from; i < to; i += step) body(i);
    } else {
#pragma unroll 1
      for (int i = from; i < to; i += step) body(i);
    }
  }

  // start is the block's first stage. A fresh barrier counts the phase before its first as done.
  __device__ __forceinline__ Cursor start(u32 phase) const {
    Cursor c;
    c.turn = c.slot = 0, c.phase = phase;
    c.enter(*this);
    return c;
  }

  // row is the weight row that is row j of a stage whose first unit is given.
  __device__ __forceinline__ int row(int unit, int j) const {
    if (OUT == SWIGLU) {
      int r = min((unit + j / 16) * 8 + j % 8, a.n - 1);
      return j % 16 < 8 ? r : a.n + r;
    }
    return min(unit * UNIT_ROWS + j, a.n - 1);
  }

  // The producers take PASS rows at a time, and a thread always has the same column of them. Each
  // scheduler has one producer warp, so instructions count: the addresses of a tile are one
  // multiplication and addition each.
  static constexpr int PASS = PRODUCERS * WARP / CHUNKS;
  static_assert(PASS >= 2 && PASS <= 8 && PASS % 2 == 0, "a pass of the producers lies within one matrix, and a thread has odd rows or even ones");

  // place is where the producers' thread puts its piece of the first rows of a stage.
  __device__ __forceinline__ u32 place(int slot, int thread) const {
    int r0 = thread / CHUNKS, piece = thread % CHUNKS ^ (r0 & 1) << 2;
    return shared_address(ring) + slot * STAGE + r0 * PITCH + piece * 16;
  }

  __device__ __forceinline__ void copy_weights(const Cursor &c, int thread, u64 policy) const {
    int r0 = thread / CHUNKS, col = c.k + thread % CHUNKS * 8;
    if (col >= a.k) return;
    u32 to = place(c.slot, thread);
    if ((c.first + c.tiles()) * OUTPUTS > a.n) { // This is the last tile, and it is not full.
      seldom(0, UNIT_ROWS * c.tiles(), PASS, [&](int j) { copy16_once(to + j * PITCH, a.w + (u64)row(c.first, j + r0) * a.k + col, policy); });
      return;
    }
    const bf16 *from = a.w + (u64)(c.first * OUTPUTS + r0) * a.k + col;
    const bf16 *up = from + (u64)a.n * a.k;
#pragma unroll
    for (int j = 0; j < ROWS; j += PASS) {
      if (j / UNIT_ROWS >= c.tiles()) break;
      bool second = OUT == SWIGLU && j % 16 >= 8;
      int down = OUT == SWIGLU ? j / 16 * 8 + j % 8 : j;
      copy16_once(to + j * PITCH, (second ? up : from) + (u64)((u32)down * (u32)a.k), policy);
    }
  }

  __device__ __forceinline__ void copy_inputs(const Cursor &c, int thread) const {
    int r0 = thread / CHUNKS, col = c.k + thread % CHUNKS * 8;
    u32 to = place(c.slot, thread) + ROWS * PITCH;
    if (col < a.k) {
#pragma unroll
      for (int j = 0; j < XR; j += PASS)
        if (j + r0 < a.batch) copy16(to + j * PITCH, a.x + (u64)((u32)(j + r0) * (u32)a.k) + col);
    }
    barrier_arrive_copied(full + c.slot);
  }

  // produce fills the ring. Its first round of weights does not wait for the kernel before. Then the
  // next kernel may start; its blocks find room where those of the kernel before end, one on a
  // multiprocessor (skinnyGEMMs).
  __device__ void produce(int thread) const {
    u64 policy = evict_first();
    Cursor w = start(1), x = w;
    int ahead = 0;
    for (; ahead < STAGES && w.units > 0; ahead++, w.next(*this)) copy_weights(w, thread, policy);
    let_next_start();
    wait_for_previous();
    for (; ahead > 0; ahead--, x.next(*this)) copy_inputs(x, thread);
    for (; w.units > 0; w.next(*this)) {
      barrier_wait(empty + w.slot, w.phase);
      copy_weights(w, thread, policy);
      copy_inputs(w, thread);
    }
  }

  // A Stream is the part of the residual stream that a thread adds to, with the norm's weights. It is
  // loaded while the weights are in flight.
  struct Stream {
    float x[EACH], gain[EACH];
  };

  // Result is the place of a thread's e-th result in a tile.
  struct Result {
    int r, seq, unit;
    __device__ __forceinline__ Result(int e) {
      int i = threadIdx.x + e * CONSUMERS * WARP;
      r = i % 16, seq = i / 16 % (NT * 8), unit = i / (16 * NT * 8);
    }
  };

  __device__ __forceinline__ void load_stream(Stream &s, int first, int units) const {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      Result at(e);
      int o = (first + at.unit) * 16 + at.r;
      bool any = at.unit < units && at.seq < a.batch && o < a.n;
      s.x[e] = any ? __ldcg(a.y + (u64)at.seq * a.n + o) : 0.f, s.gain[e] = any ? gain(to_float(a.norm[o])) : 0.f;
    }
  }

  // multiply accumulates this warp's columns of a stage.
  __device__ __forceinline__ void multiply(float (&sum)[RT][NT][4], const Cursor &c) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const u8 *stage = ring + c.slot * STAGE + warp * UNITS / 2 * 128 + t * 16;
    int base = warp * UNITS * 32;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
      if (c.k + base + u * 32 >= a.k) break;
      int half = (warp * UNITS + u) & 1, pair = (UNITS == 1 ? 0 : u / 2) * 128;
      uint4 v[NT];
#pragma unroll
      for (int n = 0; n < NT; n++) {
        int row = min(n * 8 + g, XR - 1);
        v[n] = *(const uint4 *)(stage + (ROWS + row) * PITCH + pair + ((half ^ (row & 1)) << 6));
      }
#pragma unroll
      for (int i = 0; i < RT; i++) {
        if (i >= c.tiles()) break;
        const u8 *w = stage + (i * UNIT_ROWS + g) * PITCH + pair + ((half ^ (g & 1)) << 6);
        uint4 p = *(const uint4 *)w, q = OUT == HALF_TILES ? make_uint4(0, 0, 0, 0) : *(const uint4 *)(w + 8 * PITCH);
#pragma unroll
        for (int n = 0; n < NT; n++) {
          mma(sum[i][n], p.x, q.x, p.y, q.y, v[n].x, v[n].y);
          mma(sum[i][n], p.z, q.z, p.w, q.w, v[n].z, v[n].w);
        }
      }
    }
  }

  // share stores the sums for all warps: the sums of each warp or, to save memory, of two warps.
  __device__ __forceinline__ void share(float (&sum)[RT][NT][4], float *red) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    if (COPIES < CONSUMERS) {
      float4 *lanes = (float4 *)red + warp % COPIES * RT * NT * WARP + lane;
#pragma unroll
      for (int i = 0; i < RT * NT; i++) {
        const float *s = sum[i / NT][i % NT];
        if (warp >= COPIES) lanes[i * WARP] = make_float4(s[0], s[1], s[2], s[3]);
      }
      sync_threads_of(1, CONSUMERS * WARP);
#pragma unroll
      for (int i = 0; i < RT * NT; i++) {
        if (warp >= COPIES) break;
        float *s = sum[i / NT][i % NT];
        float4 o = lanes[i * WARP];
        s[0] += o.x, s[1] += o.y, s[2] += o.z, s[3] += o.w;
      }
      sync_threads_of(1, CONSUMERS * WARP);
      if (warp >= COPIES) return;
    }
    float *mine = red + warp * RED;
#pragma unroll
    for (int i = 0; i < RT * NT; i++) {
      const float *s = sum[i / NT][i % NT];
      float *col = mine + (i * 8 + 2 * t) * RED_PITCH + g;
      col[0] = s[0], col[RED_PITCH] = s[1], col[8] = s[2], col[RED_PITCH + 8] = s[3];
    }
  }

  __device__ void consume(float *red, const float *scale) const {
    Cursor c = start(0);
    Exchange on;
    begin_exchange(on, c);
    while (c.units > 0) {
      int turn = c.turn, item = c.item, first = c.first, units = c.units;
      float sum[RT][NT][4] = {};
      Stream s;
      if (OUT == RESIDUAL) load_stream(s, first, units);
      while (c.turn == turn) {
        if (OUT == ALL_REDUCE && c.k + KS >= c.end) end_exchange(on);
        barrier_wait(full + c.slot, c.phase);
        multiply(sum, c);
        arrive_warp(empty + c.slot);
        c.next(*this);
      }
      share(sum, red);
      sync_threads_of(1, CONSUMERS * WARP);
      if (a.parts == 1 || leave(red, item, first)) {
        if (OUT == ALL_REDUCE) exchange(on, red, first, units);
        else finish(red, scale, first, units, s);
      }
      sync_threads_of(1, CONSUMERS * WARP);
    }
    if (OUT == ALL_REDUCE) end_exchange(on);
  }

  // An Exchange is a tile that travels between the ranks, or none. The block waits for it when one
  // stage of its next tile is left; all ranks have sent theirs before, so it has arrived by then.
  struct Exchange {
    int first, units;
    u32 epoch; // epoch of this launch
    float local[EACH];
  };

#if RANKS > 1
  // begin_exchange finds the epoch: one more than the last, which is the same for all units.
  __device__ __forceinline__ void begin_exchange(Exchange &on, const Cursor &c) const {
    on.units = 0, on.epoch = OUT == ALL_REDUCE && c.units > 0 ? __ldcg(a.epochs + c.first) + 1 : 0;
  }

  // exchange sends the sums of a tile to the other ranks.
  __device__ __forceinline__ void exchange(Exchange &on, const float *red, int first, int units) const {
    u64 values = (u64)a.batch * a.n;
    on.first = first, on.units = units;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      Result at(e);
      int o = (first + at.unit) * 16 + at.r;
      if (at.unit >= units || at.seq >= a.batch || o >= a.n) continue;
      on.local[e] = total(red, first, at, at.r);
      for (int to = 0; to < RANKS; to++)
        if (to != a.ll.rank) ll_store(packets[to] + ll_offset(on.epoch, a.ll.rank, values) + (u64)at.seq * a.n + o, __float_as_uint(on.local[e]), on.epoch);
    }
  }

  // end_exchange adds the sums of all ranks to the stream.
  __device__ __forceinline__ void end_exchange(Exchange &on) const {
    if (on.units == 0) return;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      Result at(e);
      int o = (on.first + at.unit) * 16 + at.r;
      if (at.unit >= on.units) break;
      float x = 0.f;
      bool any = at.seq < a.batch && o < a.n;
      if (any) {
        u64 to = (u64)at.seq * a.n + o;
        float before = a.h ? __ldcg(a.y + to) : 0.f, g = a.h ? gain(to_float(a.norm[o])) : 0.f;
        x = before + ll_sum(a.ll, packets[a.ll.rank], on.epoch, (u64)a.batch * a.n, to, on.local[e]);
        a.y[to] = x;
        if (a.h) a.h[to] = to_16bit(x * g);
        if (at.seq == 0 && at.r == 0) a.epochs[on.first + at.unit] = on.epoch;
      }
      float ss = x * x;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (a.h && at.r == 0 && any) a.sums[(u64)at.seq * (a.n / 16) + o / 16] = ss;
    }
    on.units = 0;
  }
#else
  __device__ __forceinline__ void begin_exchange(Exchange &, const Cursor &) const {}
  __device__ __forceinline__ void exchange(Exchange &, const float *, int, int) const {}
  __device__ __forceinline__ void end_exchange(Exchange &) const {}
#endif

  // leave stores the sums of one part for other blocks, and reports whether it was the last part of
  // the unit.
  __device__ bool leave(const float *red, int item, int unit) const {
    float *to = a.partial + (u64)item * SUMS;
    seldom(threadIdx.x, SUMS, CONSUMERS * WARP, [&](int i) { __stcg(to + i, of_warps(red, 0, i / 16, i % 16)); });
    return last_of(a.arrived + unit, a.parts, last);
  }

  // of_warps is the sum over the warps, in a fixed order.
  __device__ static __forceinline__ float of_warps(const float *red, int unit, int seq, int r) {
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < COPIES; i++) s += red[i * RED + (unit * NT * 8 + seq) * RED_PITCH + r];
    return s;
  }

  // total is the whole sum of a row and a sequence.
  __device__ __forceinline__ float total(const float *red, int first, const Result &at, int r) const {
    if (a.parts == 1) return of_warps(red, at.unit, at.seq, r);
    const float *from = a.partial + (u64)first * a.parts * SUMS + at.seq * 16 + r;
    float s = 0.f;
    seldom(0, a.parts, 1, [&](int i) { s += __ldcg(from + (u64)i * SUMS); });
    return s;
  }

  // finish writes the results of one tile; 16 neighbouring threads have the rows of one sequence.
  __device__ __forceinline__ void finish(const float *red, const float *scale, int first, int units, const Stream &stream) const {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      Result at(e);
      int r = at.r, seq = at.seq;
      if (at.unit >= units) break;
      if (OUT == SWIGLU) {
        int o = (first + at.unit) * 8 + r;
        if (r >= 8 || seq >= a.batch || o >= a.n) continue;
        float gate = total(red, first, at, r) * scale[seq], up = total(red, first, at, r + 8) * scale[seq];
        a.h[(u64)seq * a.n + o] = to_16bit(activate(gate) * up);
        continue;
      }
      int o = (first + at.unit) * UNIT_ROWS + r;
      if (OUT == NORM_STORE || OUT == STORE || OUT == HALF_TILES) {
        if (r < UNIT_ROWS && seq < a.batch && o < a.n) a.y[(u64)seq * a.n + o] = total(red, first, at, r) * (OUT == STORE ? 1.f : scale[seq]);
        continue;
      }
      float x = 0.f;
      if (seq < a.batch && o < a.n) {
        u64 to = (u64)seq * a.n + o;
        x = stream.x[e] + total(red, first, at, r);
        a.y[to] = x;
        a.h[to] = to_16bit(x * stream.gain[e]);
      }
      float ss = x * x;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (r == 0 && seq < a.batch && o < a.n) a.sums[(u64)seq * (a.n / 16) + o / 16] = ss;
    }
  }

  // scales computes the reciprocal norms of the inputs. A warp loads those of its sequences together.
  __device__ __forceinline__ void scales(float *scale) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float ss[NT] = {};
#pragma unroll 2
    for (int i = lane * 4; i < a.k / 16; i += WARP * 4) {
#pragma unroll
      for (int n = 0; n < NT; n++) {
        int seq = n * CONSUMERS + warp;
        if (seq >= a.batch) break;
        float4 v = __ldcg((const float4 *)(a.squares + (u64)seq * (a.k / 16) + i));
        ss[n] += (v.x + v.y) + (v.z + v.w);
      }
    }
#pragma unroll
    for (int n = 0; n < NT; n++) {
      float s = warp_sum(ss[n]);
      if (lane == 0) scale[n * CONSUMERS + warp] = rsqrtf(s / a.k + a.eps);
    }
    sync_threads_of(1, CONSUMERS * WARP);
  }

  __device__ static void run(const GemmArgs &a) {
    DYNAMIC_SHARED(ring);
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ __align__(16) float red[COPIES * RED];
    __shared__ float scale[NT * 8];
    __shared__ bool last;
#if RANKS > 1
    __shared__ u64 *packets[RANKS];
    if (OUT == ALL_REDUCE && threadIdx.x < RANKS) packets[threadIdx.x] = a.ll.packets[threadIdx.x];
    SkinnyGemm l = {a, ring, full, empty, &last, Deal(a.n, OUTPUTS, RT), packets};
#else
    SkinnyGemm l = {a, ring, full, empty, &last, Deal(a.n, OUTPUTS, RT)};
#endif
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, PRODUCERS * WARP), barrier_init(empty + i, CONSUMERS * WARP_ARRIVALS);
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS * WARP) {
      l.produce(threadIdx.x - CONSUMERS * WARP);
      return;
    }
    wait_for_previous();
    if (OUT == NORM_STORE || OUT == SWIGLU || OUT == HALF_TILES) l.scales(scale);
    l.consume(red, scale);
  }
};

#define SKINNY_GEMM(name, SHAPE, OUT)                                                                                           \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 2)                                           \
      name(const bf16 *w, const bf16 *x, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, \
           const bf16 *norm, int parts, float *partial, u32 *arrived) {                                                    \
    GemmArgs a = {w, x, n, k, batch, eps, squares, y, h, sums, norm, parts, partial, arrived};                           \
    SkinnyGemm<SHAPE, OUT>::run(a);                                                                                            \
  }

#if OUTPUT_NORM || RANKS > 1
#define SKINNY_PLAIN(rows) SKINNY_GEMM(skinny_plain_##rows, SKINNY_RESIDUAL_##rows, STORE)
#else
#define SKINNY_PLAIN(rows)
#endif

#if RANKS > 1
#define SKINNY_SUMMED(rows)                                                                                                \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 2)                                           \
      skinny_all_reduce_##rows(const bf16 *w, const bf16 *x, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, \
                           const bf16 *norm, int parts, float *partial, u32 *arrived, u64 *const *packets, u32 *late, u64 limit, int rank, u32 *epochs) { \
    GemmArgs a = {w, x, n, k, batch, eps, squares, y, h, sums, norm, parts, partial, arrived, {packets, late, limit, rank}, epochs}; \
    SkinnyGemm<SKINNY_RESIDUAL_##rows, ALL_REDUCE>::run(a);                                                                                    \
  }
#else
#define SKINNY_SUMMED(rows)
#endif

#define SKINNY_GEMMS(rows)                                       \
  SKINNY_GEMM(skinny_norm_##rows, SKINNY_NORM_##rows, NORM_STORE)        \
  SKINNY_GEMM(skinny_residual_##rows, SKINNY_RESIDUAL_##rows, RESIDUAL)     \
  SKINNY_GEMM(skinny_swiglu_##rows, SKINNY_SWIGLU_##rows, SWIGLU)        \
  SKINNY_PLAIN(rows)                                        \
  SKINNY_SUMMED(rows)

SKINNY_GEMMS(1)
SKINNY_GEMMS(8)
SKINNY_GEMMS(16)

#ifdef SKINNY_HALF_1
SKINNY_GEMM(skinny_half_1, SKINNY_HALF_1, HALF_TILES)
#endif
#ifdef SKINNY_HALF_8
SKINNY_GEMM(skinny_half_8, SKINNY_HALF_8, HALF_TILES)
#endif
