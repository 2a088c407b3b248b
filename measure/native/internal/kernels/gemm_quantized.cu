// The GEMM of a decode step with quantized weights and up to 32 sequences. As in gemm_skinny.cu,
// producers copy the weights as they lie in DRAM through a ring in shared memory. Consumers dequantize
// them to 16 bits in registers and multiply on tensor cores. The scale of a row is multiplied with its
// sums at the end. The scales and zero points of groups come through the ring too, and each group is
// summed by itself before it is multiplied by its scale.
//
// The warps that multiply form a grid. WR warps side by side take alternate units of rows, and the
// warps above each other share the columns of a stage. For few sequences WR is 1, so that inputs are
// loaded once for all rows. For many a warp has one unit with all of its sums, and the block has so
// many rows that its inputs, which each block reads again, are no more bytes than its weights.
//
// The host defines the shapes of the rings by the largest batch: QUANTIZED_NORM_1 to QUANTIZED_NORM_32
// are NT, RT, KS, STAGES and XR as in gemm_skinny.cu, WR, and the number of warps that multiply;
// QUANTIZED_SWIGLU_ and QUANTIZED_RESIDUAL_ are those of the other epilogues.

#ifdef QUANTIZED

// COPIERS is how many warps of a block copy, for so many that multiply.
#define COPIERS(CW) ((CW) > 8 ? 2 : 4)

struct QuantizedArgs {
  GemmArgs l;
  const void *scales; // scales and zeros lie as quantized.cuh says.
  const u8 *zeros;
};

// A Share is a Deal without the divisions that each of its tiles would take. In all passes but the
// last each block has as many units as any other; `rest` of them have one more than `least`.
struct Share {
  int all, passes, least, rest, last, last_units;
  __device__ __forceinline__ Share(const Deal &d) {
    all = d.units, passes = d.passes, least = d.each / d.passes, rest = d.each % d.passes;
    last = d.first(passes - 1, blockIdx.x), last_units = d.first(passes - 1, blockIdx.x + 1) - last;
  }
};

template <int NT, int RT, int KS, int STAGES, int XR, int WR, int CW, Epilogue OUT>
struct QuantizedGemm {
  static constexpr int THREADS = CW * WARP; // threads that multiply
  static constexpr int PR = COPIERS(CW);    // warps that copy
  static constexpr int ROWS = 16 * RT;
  static constexpr int PITCH = KS * QUANTIZED / 8; // bytes of a row
  static constexpr int XPITCH = KS * 2;
  static constexpr int GROUPS = QUANTIZED == 4 ? KS / GROUP_INPUTS : 0;
  static constexpr int SCALES = ROWS * PITCH + XR * XPITCH; // offset of the scales in a stage
  static constexpr int ZEROS = SCALES + GROUPS * ROWS * 2;
  static constexpr int STAGE = (ZEROS + GROUPS * ROWS / 2 + 127) / 128 * 128;
  static constexpr int RW = RT / WR; // units of rows of a warp
  static constexpr int WC = CW / WR;                 // warps that share a unit's columns
  static constexpr int UNITS = KS / WC / UNIT; // units of columns of a warp and stage
  static constexpr int COPIES = WC * RT * NT <= 8 || WC == 1 || XR == 1 ? WC : WC / 2; // copies of the sums that warps share
  static constexpr int SEQS = XR == 1 ? 1 : NT * 8; // columns of the sums
  static constexpr int RED = RT * SEQS * RED_PITCH; // floats of one copy of the sums
  static constexpr int INPUTS = RW > 1 && STEPS * NT <= 4 ? STEPS : 1; // steps whose inputs stay in registers for all rows
  static constexpr int PIECES = PITCH / 16; // 16-byte pieces of a row
  static constexpr int XPIECES = KS / 8;
  static constexpr int SUMS = RT * SEQS * 16; // sums of a tile
  static constexpr int EACH = (SUMS + THREADS - 1) / THREADS; // the most results of a thread
  static constexpr int CHAINS = NT == 1 ? 2 : 1; // chains of mma that do not depend on each other
  static constexpr int SETS = QUANTIZED == 8 ? CHAINS : 1; // chains whose sums last for the whole tile
  static constexpr bool BY_INPUTS = QUANTIZED == 4 && NT == 1; // The zero point is multiplied with a group's sum of inputs.
  static constexpr int BUFFERS = XR == 1 ? 2 : 1; // With two buffers of sums no warp waits for the results of another.
  static constexpr int OUTPUTS = OUT == SWIGLU ? 8 : 16; // outputs of a unit
  static_assert(RW * WR == RT && WC * WR == CW && UNITS * WC * UNIT == KS && PITCH % 128 == 0, "a stage divides among the warps");

  const QuantizedArgs &a;
  u8 *ring;
  u64 *full, *empty; // Each slot has two barriers: it is full, and it is empty again.
  bool *last; // This block has the last part of a tile.
  float *of_rows; // [ROWS], scales of the tile's rows of 8-bit weights
  Share deal;

  // A Cursor is the place of a stage in the weights and in the ring, as in gemm_skinny.cu, except that
  // a part belongs to all units of a tile.
  struct Cursor {
    int turn, first, units, item, k, end, slot, dealt, rest;
    u32 phase;
    __device__ __forceinline__ void enter(const QuantizedGemm &l) {
      const GemmArgs &a = l.a.l;
      k = 0, end = a.k;
      if (a.parts == 1) {
        units = 0;
        if (turn >= l.deal.passes) return;
        int each = l.deal.least;
        if ((rest += l.deal.rest) >= l.deal.passes) rest -= l.deal.passes, each++;
        bool last = turn + 1 == l.deal.passes;
        first = last ? l.deal.last : dealt * gridDim.x + blockIdx.x * each, units = last ? l.deal.last_units : each;
        dealt += each;
        return;
      }
      item = blockIdx.x + turn * gridDim.x, first = item / a.parts * RT, units = min(RT, l.deal.all - first);
      int stages = (a.k + KS - 1) / KS, part = item % a.parts;
      k = part * stages / a.parts * KS, end = min(a.k, (part + 1) * stages / a.parts * KS);
    }
    // step advances to the next stage of the tile, and reports whether there is one.
    __device__ __forceinline__ bool step() {
      if (++slot == STAGES) slot = 0, phase ^= 1;
      return (k += KS) < end;
    }
    __device__ __forceinline__ void next(const QuantizedGemm &l) {
      if (!step()) turn++, enter(l);
    }
    __device__ __forceinline__ int tiles() const { return RT == 1 ? 1 : units; }
  };

  __device__ __forceinline__ Cursor start(u32 phase) const {
    Cursor c;
    c.turn = c.slot = c.dealt = c.rest = 0, c.phase = phase;
    c.enter(*this);
    return c;
  }

  // row is the weight row that is row j of a stage whose first unit is given; n is a multiple of 8.
  __device__ __forceinline__ int row(int unit, int j) const {
    if (OUT == SWIGLU) {
      int r = (unit + j / 16) * 8 + j % 8;
      return j % 16 < 8 ? r : a.l.n + r;
    }
    return min(unit * 16 + j / 8 * 8, a.l.n - 8) + j % 8;
  }

  __device__ __forceinline__ int rows() const { return OUT == SWIGLU ? 2 * a.l.n : a.l.n; }

  // The producers take PASS rows at a time, and a thread always has the same column of them. As in
  // gemm_skinny.cu, each scheduler has one producer warp, so instructions count: the addresses of a
  // tile are one multiplication and addition each. (When row and column of each copy were computed
  // anew, a stage took 2000 cycles and more; DRAM takes about 800.)
  static constexpr int COPY = PR * WARP; // threads that fill a stage
  static constexpr int COLUMNS = PIECES < COPY ? PIECES : COPY; // threads side by side
  static constexpr int PASS = COPY / COLUMNS;
  static constexpr int XCOLUMNS = XPIECES < COPY ? XPIECES : COPY;
  static constexpr int XPASS = COPY / XCOLUMNS;
  static_assert(PASS >= 1 && 16 % PASS == 0 && PIECES % COLUMNS == 0 && XPIECES % XCOLUMNS == 0, "a pass of the producers");

  // swap is the place of piece p of a row: in odd rows pieces 4 to 7 of each 8 are swapped with 0 to
  // 3.
  __device__ static __forceinline__ int swap(int p, int row) { return p ^ (row & 1) << 2; }

  __device__ __forceinline__ void copy_weights(const Cursor &c, int thread, u64 policy) const {
    int r0 = thread / COLUMNS, piece = thread % COLUMNS, width = a.l.k / 8 * QUANTIZED, at = c.k / 8 * QUANTIZED + piece * 16;
    u32 to = shared_address(ring) + c.slot * STAGE + r0 * PITCH;
    const u8 *w = (const u8 *)a.l.w;
    if (QUANTIZED == 4) copy_groups(c, thread);
    if ((c.first + c.tiles()) * OUTPUTS > a.l.n) { // This is the last unit, and it is not full.
      for (int j = 0; j < 16 * c.tiles(); j += PASS)
        for (int i = 0; i < PIECES && at + i * 16 < width; i += COLUMNS)
          copy16_once(to + j * PITCH + (swap(piece, r0 + j) + i) * 16, w + (u64)row(c.first, j + r0) * width + at + i * 16, policy);
      return;
    }
    const u8 *from = w + (u64)(c.first * OUTPUTS + (OUT == SWIGLU ? r0 % 8 : r0)) * width + at;
    const u8 *up = from + (u64)a.l.n * width;
    if (OUT == SWIGLU && r0 >= 8) from = up; // PASS is 16.
#pragma unroll
    for (int j = 0; j < ROWS; j += PASS) {
      if (j / 16 >= c.tiles()) break;
      bool second = OUT == SWIGLU && j % 16 >= 8;
      int down = OUT == SWIGLU ? j / 16 * 8 + j % 8 : j;
      const u8 *of_row = (second ? up : from) + (u64)((u32)down * (u32)width);
#pragma unroll
      for (int i = 0; i < PIECES; i += COLUMNS)
        if (at + i * 16 < width) copy16_once(to + j * PITCH + (swap(piece, PASS == 1 ? j : r0) + i) * 16, of_row + i * 16, policy);
    }
  }

  // copy_groups copies scales and zero points; a thread copies those of 8 rows.
  __device__ __forceinline__ void copy_groups(const Cursor &c, int thread) const {
    u32 to = shared_address(ring) + c.slot * STAGE;
#pragma unroll
    for (int i = thread; i < (GROUPS * (ROWS / 8) + COPY - 1) / COPY * COPY; i += COPY) {
      int g = i / (ROWS / 8), eight = i % (ROWS / 8), group = c.k / GROUP_INPUTS + g;
      if (g >= GROUPS || group >= a.l.k / GROUP_INPUTS || eight / 2 >= c.tiles()) continue;
      u64 from = (u64)((u32)group * (u32)rows()) + row(c.first, eight * 8);
      copy16(to + SCALES + i * 16, (const bf16 *)a.scales + from);
      copy4(to + ZEROS + i * 4, a.zeros + from / 2);
    }
  }

  __device__ __forceinline__ void copy_inputs(const Cursor &c, int thread) const {
    int r0 = thread / XCOLUMNS, piece = thread % XCOLUMNS, col = c.k + piece * 8;
    u32 to = shared_address(ring) + c.slot * STAGE + ROWS * PITCH + r0 * XPITCH;
#pragma unroll
    for (int i = 0; i < XPIECES; i += XCOLUMNS) {
      if (col + i * 8 >= a.l.k) break;
#pragma unroll
      for (int j = 0; j < XR; j += XPASS)
        if (j + r0 < a.l.batch)
          copy16(to + j * XPITCH + (swap(piece, XPASS == 1 ? j : r0) + i) * 16, a.l.x + (u64)((u32)(j + r0) * (u32)a.l.k) + col + i * 8);
    }
    barrier_arrive_copied(full + c.slot);
  }

  // produce fills the ring. As in gemm_skinny.cu, the first round does not wait for the kernel before,
  // and then the next kernel may start.
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
  // loaded while the weights are in flight if there are few results.
  static constexpr int AHEAD = OUT == RESIDUAL && EACH <= 2 ? EACH : 1;
  struct Stream {
    float x[AHEAD], gain[AHEAD];
  };

  // Result is the place of a thread's e-th result in a tile; 16 neighbouring threads have the rows of
  // one sequence.
  struct Result {
    int r, seq, unit;
    __device__ __forceinline__ Result(int e) {
      int i = threadIdx.x + e * THREADS;
      r = i % 16, seq = i / 16 % SEQS, unit = i / (16 * SEQS);
    }
  };

  __device__ __forceinline__ void load_stream(Stream &s, int at_e, int e, int first, int units) const {
    Result at(e);
    int o = (first + at.unit) * 16 + at.r;
    bool any = at.unit < units && at.seq < a.l.batch && o < a.l.n;
    s.x[at_e] = any ? __ldcg(a.l.y + (u64)at.seq * a.l.n + o) : 0.f, s.gain[at_e] = any ? gain(to_float(a.l.norm[o])) : 0.f;
  }

  // A Lane is where a lane's first operands lie in a stage: 16 bytes of a weight row, inputs of the
  // first sequence, and scales and zero points; odd is 1 if the 64 bytes of units of columns, from the
  // warp's first on, are swapped.
  struct Lane {
    int w, x, scales, zeros, odd, shift, part, first;
    __device__ __forceinline__ Lane() {
      int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
      part = kept(warp % WR), first = kept(warp / WR * UNITS);
      odd = UNITS % 2 == 0 ? g & 1 : (first ^ g) & 1;
      int row = part * 16 + g;
      w = kept(row * PITCH + first / 2 * 128 + t * 16 + (UNITS == 1 ? odd * 64 : 0));
      int s = min(g, XR - 1);
      x = kept(ROWS * PITCH + s * XPITCH + first * UNIT * 2 + t * 16 + (s & 1) * 64);
      scales = kept(SCALES + (first * ROWS + row) * 2), zeros = kept(ZEROS + (first * ROWS + row) / 2), shift = row % 2 * 4;
    }
  };

  // multiply accumulates the u-th unit of columns.
  __device__ __forceinline__ void multiply(float (&sum)[RW][SETS * NT][4], const u8 *slot, const Lane &lane, int u, int units) const {
    int part = lane.part;
    const u8 *w = slot + lane.w + (UNITS == 1 ? 0 : u / 2 * 128 + ((u ^ lane.odd) & 1) * 64);
    uint4 v[INPUTS][NT];
    auto load = [&](int j) {
      const u8 *from = slot + (lane.x ^ (j & 1) * 64) + u * UNIT * 2 + j / 2 * 128;
#pragma unroll
      for (int n = 0; n < NT; n++) v[j % INPUTS][n] = *(const uint4 *)(from + n * 8 * XPITCH);
    };
#pragma unroll
    for (int j = 0; j < STEPS && INPUTS > 1; j++) load(j);
#if QUANTIZED == 4
    float ones[BY_INPUTS ? CHAINS * NT : 1][4] = {}; // sums of the inputs, the same in each row
#endif
#pragma unroll
    for (int i = 0; i < RW; i++) {
      if (RW > 1 && i * WR + part >= units) break;
      const u8 *from = w + i * WR * 16 * PITCH;
      uint4 p = *(const uint4 *)from, q = *(const uint4 *)(from + 8 * PITCH);
#if QUANTIZED == 8
#pragma unroll
      for (int j = 0; j < STEPS; j++) {
        u32 m[4], o[4];
        if (INPUTS == 1) load(j);
        pairs(j ? p.z : p.x, m[0], m[1]), pairs(j ? p.w : p.y, m[2], m[3]);
        pairs(j ? q.z : q.x, o[0], o[1]), pairs(j ? q.w : q.y, o[2], o[3]);
#pragma unroll
        for (int n = 0; n < NT; n++) {
          uint4 in = v[j % INPUTS][n];
          mma(sum[i][n], m[0], o[0], m[1], o[1], in.x, in.y);
          mma(sum[i][(SETS - 1) * NT + n], m[2], o[2], m[3], o[3], in.z, in.w);
        }
      }
#else
      const bf16 *scales = (const bf16 *)(slot + lane.scales) + u * ROWS + i * WR * 16;
      const u8 *zeros = slot + lane.zeros + (u * ROWS + i * WR * 16) / 2;
      float sp = to_float(scales[0]), sq = to_float(scales[8]);
      u32 zp = zeros[0] >> lane.shift & 15, zq = zeros[4] >> lane.shift & 15;
      float group[CHAINS][NT][4] = {};
      const u32 *ps = &p.x, *qs = &q.x;
#pragma unroll
      for (int j = 0; j < STEPS; j++) {
        u32 m[4], o[4];
        if (INPUTS == 1) load(j);
        if (BY_INPUTS) above(ps[j], m), above(qs[j], o);
        else pairs(ps[j], minus_zero(zp), m), pairs(qs[j], minus_zero(zq), o);
#pragma unroll
        for (int n = 0; n < NT; n++) {
          uint4 in = v[j % INPUTS][n];
          if (BY_INPUTS && i == 0) mma(ones[n], ONE16, ONE16, ONE16, ONE16, in.x, in.y);
          mma(group[0][n], m[0], o[0], m[1], o[1], in.x, in.y);
          if (BY_INPUTS && i == 0) mma(ones[(CHAINS - 1) * NT + n], ONE16, ONE16, ONE16, ONE16, in.z, in.w);
          mma(group[CHAINS - 1][n], m[2], o[2], m[3], o[3], in.z, in.w);
        }
      }
      float yp = -(ABOVE + (float)zp), yq = -(ABOVE + (float)zq);
#pragma unroll
      for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int c = 0; c < 4; c++) {
          float s = group[0][n][c] + (CHAINS > 1 ? group[CHAINS - 1][n][c] : 0.f);
          if (BY_INPUTS) s += (c < 2 ? yp : yq) * (ones[n][c % 2] + (CHAINS > 1 ? ones[(CHAINS - 1) * NT + n][c % 2] : 0.f));
          sum[i][n][c] += (c < 2 ? sp : sq) * s;
        }
      }
#endif
    }
  }

  // multiply_stage accumulates this warp's columns of a stage.
  __device__ __forceinline__ void multiply_stage(float (&sum)[RW][SETS * NT][4], const Cursor &c, const Lane &lane) const {
    if (RT > 1 && lane.part >= c.units) return;
    const u8 *slot = ring + c.slot * STAGE;
    int left = (a.l.k - c.k) / UNIT - lane.first; // units of columns
    if (UNITS == 1) {
      if (left > 0) multiply(sum, slot, lane, 0, c.units);
    } else if (left >= UNITS) { // No load then waits for the unit before.
#pragma unroll
      for (int u = 0; u < UNITS; u++) multiply(sum, slot, lane, u, c.units);
    } else {
      for (int u = 0; u < left; u++) multiply(sum, slot, lane, u, c.units);
    }
  }

  // share stores the sums for all warps: the sums of each warp or, to save memory, of two warps.
  __device__ __forceinline__ void share(float (&sum)[RW][SETS * NT][4], float *red, int units) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, part = warp % WR, slice = warp / WR;
#pragma unroll
    for (int i = 0; i < RW * NT * 4 && SETS > 1; i++) sum[i / 4 / NT][i / 4 % NT][i % 4] += sum[i / 4 / NT][(SETS - 1) * NT + i / 4 % NT][i % 4];
    if (COPIES < WC) {
      float4 *lanes = (float4 *)red + slice % COPIES * RT * NT * WARP + lane;
#pragma unroll
      for (int i = 0; i < RW * NT; i++) {
        const float *s = sum[i / NT][i % NT];
        if (slice >= COPIES) lanes[((i / NT * WR + part) * NT + i % NT) * WARP] = make_float4(s[0], s[1], s[2], s[3]);
      }
      sync_threads_of(1, THREADS);
#pragma unroll
      for (int i = 0; i < RW * NT; i++) {
        if (slice >= COPIES) break;
        float *s = sum[i / NT][i % NT];
        float4 o = lanes[((i / NT * WR + part) * NT + i % NT) * WARP];
        s[0] += o.x, s[1] += o.y, s[2] += o.z, s[3] += o.w;
      }
      sync_threads_of(1, THREADS);
      if (slice >= COPIES) return;
    }
    float *mine = red + slice * RED;
#pragma unroll
    for (int i = 0; i < RW * NT; i++) {
      int unit = i / NT * WR + part;
      if (RT > 1 && unit >= units) break;
      const float *s = sum[i / NT][i % NT];
      if (XR == 1) {
        if (t == 0) mine[unit * RED_PITCH + g] = s[0], mine[unit * RED_PITCH + g + 8] = s[2];
        continue;
      }
      float *col = mine + ((unit * NT + i % NT) * 8 + 2 * t) * RED_PITCH + g;
      col[0] = s[0], col[RED_PITCH] = s[1], col[8] = s[2], col[RED_PITCH + 8] = s[3];
    }
  }

  __device__ void consume(float *red, const float *scale) {
    Cursor c = start(0);
    Lane lane;
    while (c.units > 0) {
      int first = c.first, units = c.units;
      float sum[RW][SETS * NT][4] = {}, of_row = 0.f; // The scales come from DRAM while the stages do.
      if (QUANTIZED == 8 && threadIdx.x < 16 * units) of_row = ((const float *)a.scales)[row(first, threadIdx.x)];
      Stream s;
      if (OUT == RESIDUAL && AHEAD == EACH) {
#pragma unroll
        for (int e = 0; e < AHEAD; e++) load_stream(s, e, e, first, units);
      }
      do {
        barrier_wait(full + c.slot, c.phase);
        multiply_stage(sum, c, lane);
        arrive_warp(empty + c.slot);
      } while (c.step());
      if (QUANTIZED == 8 && threadIdx.x < 16 * units) of_rows[threadIdx.x] = of_row;
      share(sum, red, units);
      sync_threads_of(1, THREADS);
      if (a.l.parts == 1 || leave(red, c.item, first / RT, units)) finish(red, scale, first, units, s);
      if (BUFFERS == 1) sync_threads_of(1, THREADS);
      else if (c.turn % 2 == 0) red += COPIES * RED, of_rows += ROWS;
      else red -= COPIES * RED, of_rows -= ROWS;
      c.turn++, c.enter(*this);
    }
  }

  // leave stores the sums of one part for other blocks, and reports whether it was the last part of
  // the tile.
  __device__ bool leave(const float *red, int item, int tile, int units) const {
    float *to = a.l.partial + (u64)item * SUMS;
    for (int i = threadIdx.x; i < units * SEQS * 16; i += THREADS) __stcg(to + i, of_warps(red, i / (16 * SEQS), i / 16 % SEQS, i % 16));
    return last_of<THREADS>(a.l.arrived + tile, a.l.parts, last);
  }

  // of_warps is the sum over the warps that shared a unit, in a fixed order.
  __device__ static __forceinline__ float of_warps(const float *red, int unit, int seq, int r) {
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < COPIES; i++) s += red[i * RED + (unit * SEQS + seq) * RED_PITCH + r];
    return s;
  }

  // total is the whole sum of row r of a unit and a sequence.
  __device__ __forceinline__ float total(const float *red, int first, const Result &at, int r) const {
    float s = 0.f;
    if (a.l.parts == 1) {
      s = of_warps(red, at.unit, at.seq, r);
    } else {
      const float *from = a.l.partial + (u64)(first / RT) * a.l.parts * SUMS + (at.unit * SEQS + at.seq) * 16 + r;
      for (int i = 0; i < a.l.parts; i++) s += __ldcg(from + (u64)i * SUMS);
    }
    return QUANTIZED == 8 ? s * of_rows[at.unit * 16 + r] : s;
  }

  // finish writes the results of one tile.
  __device__ __forceinline__ void finish(const float *red, const float *scale, int first, int units, Stream &stream) const {
    const GemmArgs &l = a.l;
#pragma unroll(EACH <= 4 ? EACH : 1)
    for (int e = 0; e < EACH; e++) {
      Result at(e);
      int r = at.r, seq = at.seq;
      if (at.unit - (SEQS == 1 ? threadIdx.x % WARP / 16 : 0) >= units) break; // The condition is the same for whole warps.
      if (OUT == SWIGLU) {
        int o = (first + at.unit) * 8 + r;
        if (r >= 8 || seq >= l.batch || at.unit >= units) continue;
        float gate = total(red, first, at, r) * scale[seq], up = total(red, first, at, r + 8) * scale[seq];
        l.h[(u64)seq * l.n + o] = to_16bit(activate(gate) * up);
        continue;
      }
      int o = (first + at.unit) * 16 + r;
      bool there = at.unit < units && seq < l.batch && o < l.n;
      u64 to = (u64)seq * l.n + o;
      if (OUT == NORM_STORE || OUT == STORE) {
        if (there) l.y[to] = total(red, first, at, r) * (OUT == NORM_STORE ? scale[seq] : 1.f);
        continue;
      }
      float x = 0.f;
      int s = AHEAD == EACH ? e : 0;
      if (AHEAD != EACH) load_stream(stream, 0, e, first, units);
      if (there) {
        x = stream.x[s] + total(red, first, at, r);
        l.y[to] = x;
        l.h[to] = to_16bit(x * stream.gain[s]);
      }
      float ss = x * x;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (r == 0 && there) l.sums[(u64)seq * (l.n / 16) + o / 16] = ss;
    }
  }

  // reciprocals computes the reciprocal norms of the inputs. A warp loads those of its sequences
  // together.
  __device__ __forceinline__ void reciprocals(float *scale) const {
    constexpr int SEQS = (NT * 8 + CW - 1) / CW;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float ss[SEQS] = {};
    for (int i = lane * 4; i < a.l.k / 16; i += WARP * 4) {
#pragma unroll
      for (int n = 0; n < SEQS; n++) {
        int seq = n * CW + warp;
        if (seq >= a.l.batch) break;
        float4 v = __ldcg((const float4 *)(a.l.squares + (u64)seq * (a.l.k / 16) + i));
        ss[n] += (v.x + v.y) + (v.z + v.w);
      }
    }
#pragma unroll
    for (int n = 0; n < SEQS; n++) {
      float s = warp_sum(ss[n]);
      if (lane == 0 && n * CW + warp < NT * 8) scale[n * CW + warp] = rsqrtf(s / a.l.k + a.l.eps);
    }
    sync_threads_of(1, THREADS);
  }

  __device__ static void run(const QuantizedArgs &a) {
    DYNAMIC_SHARED(ring);
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ __align__(16) float red[BUFFERS * COPIES * RED];
    __shared__ float scale[NT * 8];
    __shared__ float of_rows[BUFFERS * ROWS];
    __shared__ bool last;
    QuantizedGemm l = {a, ring, full, empty, &last, of_rows, Share(Deal(a.l.n, OUTPUTS, RT))};
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, COPY), barrier_init(empty + i, CW * WARP_ARRIVALS);
    }
    __syncthreads();
    if (threadIdx.x >= THREADS) {
      l.produce(threadIdx.x - THREADS);
      return;
    }
    wait_for_previous();
    if (OUT == NORM_STORE || OUT == SWIGLU) l.reciprocals(scale);
    l.consume(red, scale);
  }
};

// MOST_THREADS is how many threads a multiprocessor takes.
#if OLDER == 75
#define MOST_THREADS 1024
#else
#define MOST_THREADS 1536
#endif

// These are the threads of a block of a ring, and the blocks for which a multiprocessor needs
// registers.
template <int NT, int, int, int, int, int, int CW>
constexpr int QUANTIZED_THREADS = (CW + COPIERS(CW)) * WARP;
template <int NT, int, int, int, int, int, int CW>
constexpr int QUANTIZED_BLOCKS = NT > 1 && CW > 8 || (CW + COPIERS(CW)) * WARP > MOST_THREADS / 2 ? 1 : 2;

#define QUANTIZED_GEMM(name, SHAPE, OUT)                                                                                           \
  extern "C" __global__ void __launch_bounds__(QUANTIZED_THREADS<SHAPE>, QUANTIZED_BLOCKS<SHAPE>)                                 \
      name(const bf16 *w, const bf16 *x, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, \
           const bf16 *norm, int parts, float *partial, u32 *arrived, const void *scales, const u8 *zeros) {               \
    QuantizedArgs a = {{w, x, n, k, batch, eps, squares, y, h, sums, norm, parts, partial, arrived}, scales, zeros};          \
    QuantizedGemm<SHAPE, OUT>::run(a);                                                                                            \
  }

#if OUTPUT_NORM || RANKS > 1
#define QUANTIZED_PLAIN(rows) QUANTIZED_GEMM(quantized_plain_##rows, QUANTIZED_RESIDUAL_##rows, STORE)
#else
#define QUANTIZED_PLAIN(rows)
#endif

#define QUANTIZED_GEMMS(rows)                                          \
  QUANTIZED_GEMM(quantized_norm_##rows, QUANTIZED_NORM_##rows, NORM_STORE)          \
  QUANTIZED_GEMM(quantized_residual_##rows, QUANTIZED_RESIDUAL_##rows, RESIDUAL) \
  QUANTIZED_GEMM(quantized_swiglu_##rows, QUANTIZED_NORM_##rows, SWIGLU)          \
  QUANTIZED_PLAIN(rows)

QUANTIZED_GEMMS(1)
QUANTIZED_GEMMS(8)
QUANTIZED_GEMMS(16)
QUANTIZED_GEMMS(32)

#endif // QUANTIZED
