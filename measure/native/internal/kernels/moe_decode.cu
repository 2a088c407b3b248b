// The MoE decode kernels: experts_gate_up and experts_down of a decode step. Up to eight pairs of a
// token and an expert, all of one expert, are a group. A group's weights are read once, through a ring
// in shared memory as in gemm_skinny.cu. For a single token each pair is a group.
//
// Each of the four copying warps fills every fourth stage of the ring, so that four warps wait for
// barriers and compute addresses at the same time.
//
//   - gate_up: an item is 8 outputs of a group, from 8 rows of the gate and 8 of up.
//   - down: an item is 16 outputs of all tokens. So a block adds up the experts of a token itself, in
//     the order of the groups, and a sum is always the same.
//
// Experts' weights cannot be copied before the experts are chosen. But the kernel of down may start
// when that of gate_up has seen the choice, and fill its ring meanwhile.
//
// The host defines EXPERTS_1 and EXPERTS_8, for one token and for more: depth and stages of the ring
// of gate_up, and of that of down.

#if MOE

#define GROUP_PAIRS 8

// choose_and_group chooses the experts of some tokens, one block a token. The last block to finish
// sorts the pairs into groups.
//
//   scores[rows][experts], chosen[rows][top], weights[rows][top], order[groups][GROUP_PAIRS];
//   done: 0 before and after
extern "C" __global__ void choose_and_group(const float *scores, int experts, int top, int normalized, int *chosen, float *weights, int *order, int *groups,
                                            u32 *done) {
  __shared__ bool last;
  let_next_start();
  after_previous();
  u64 row = blockIdx.x;
  if (threadIdx.x < WARP) {
    choose_experts(scores + row * experts, experts, top, normalized, chosen + row * top, weights + row * top);
    __threadfence();
    __syncwarp();
    if (threadIdx.x == 0) {
      last = atomicAdd(done, 1) == gridDim.x - 1;
      if (last) *done = 0;
      __threadfence();
    }
  }
  __syncthreads();
  if (last) group(chosen, gridDim.x * top, experts, GROUP_PAIRS, order, groups);
}

struct ExpertArgs {
  const bf16 *w; // gate_up: [experts][gate and up][n][k]; down: [experts][n][k]
  const bf16 *x; // gate_up: [rows][k]; down: [pairs][k]
  const int *chosen;    // [rows][top]
  const float *shares; // [rows][top], for down
  const int *order; // [groups][GROUP_PAIRS], -1 if a group has fewer; not read for one token
  const int *groups; // the number of groups, followed by the expert of each
  int n, k, top, rows;
  int most; // the most groups
  float eps;
  const float *squares; // [rows][k/16], sums of squares for the norm; null if x is normed
};

// A Ring is how a block gets weights and inputs. KS columns of 16 rows of an expert and of XR inputs
// are one of its STAGES.
template <int XR, int KS, int STAGES, bool DOWN>
struct ExpertRing {
  static constexpr int PITCH = KS * 2 + 64;
  static constexpr int STAGE = (16 + XR) * PITCH;
  static constexpr int CHUNKS = KS / 8;                      // 16-byte pieces of a row
  static constexpr int UNITS = KS / CONSUMERS / 32; // units of 32 columns for a warp and stage
  static_assert(UNITS * CONSUMERS * 32 == KS, "a stage divides among the warps");

  // A slot belongs to one of the copying warps, which knows by its phase whether it is empty. So as
  // many warps copy as divide the stages.
  static constexpr int FILLERS = STAGES % PRODUCERS == 0 ? PRODUCERS : STAGES % 2 == 0 ? 2 : 1;
  const ExpertArgs &a;
  u8 *ring;
  u64 *full, *empty; // Each slot has two barriers: it is full, and it is empty again.
  int *expert; // experts of the groups, in shared memory
  int *place; // a pair of a group, and its token times 65536; -1 for none
  float *share; // weights of the pairs
  int groups, items;

  // A Cursor is the place of a stage in the work of this block and in the ring.
  struct Cursor {
    int item, group, tile, k, slot; // tile counts tiles of 16 weight rows.
    u32 phase;
  };

  __device__ __forceinline__ int tiles() const { return a.n / (DOWN ? 16 : 8); }

  __device__ __forceinline__ void enter(Cursor &c, int item) const {
    c.item = item, c.k = 0;
    c.group = DOWN ? 0 : item / tiles(), c.tile = DOWN ? item : item % tiles();
  }

  __device__ __forceinline__ Cursor first(u32 phase) const {
    Cursor c;
    c.slot = 0, c.phase = phase;
    enter(c, blockIdx.x);
    return c;
  }

  __device__ __forceinline__ void next(Cursor &c) const {
    if (++c.slot == STAGES) c.slot = 0, c.phase ^= 1;
    if ((c.k += KS) < a.k) return;
    c.k = 0;
    if (!DOWN || ++c.group == groups) enter(c, c.item + gridDim.x);
  }

  // slots initializes the barriers.
  __device__ __forceinline__ void slots() const {
    if (threadIdx.x == 0)
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, WARP), barrier_init(empty + i, CONSUMERS * WARP_ARRIVALS);
  }

  // list copies the groups to shared memory. The kernel before made them, or one before that.
  __device__ __forceinline__ void list() {
    groups = XR == 1 ? a.top : __ldcg(a.groups);
    for (int g = threadIdx.x; g < groups; g += blockDim.x) expert[g] = XR == 1 ? __ldcg(a.chosen + g) : __ldcg(a.groups + 1 + g);
    if constexpr (XR == 1) {
      if (DOWN && threadIdx.x < groups) share[threadIdx.x] = __ldcg(a.shares + threadIdx.x);
    } else {
      for (int i = threadIdx.x; i < groups * GROUP_PAIRS; i += blockDim.x) {
        int pair = __ldcg(a.order + i);
        place[i] = pair < 0 ? -1 : pair | pair / a.top << 16;
        if (DOWN) share[i] = pair < 0 ? 0.f : __ldcg(a.shares + pair);
      }
    }
    items = DOWN ? tiles() : groups * tiles();
  }

  __device__ __forceinline__ void copy_weights(const Cursor &c, int lane, u64 policy) const {
    u32 to = shared_address(ring) + c.slot * STAGE + lane * 16;
    u64 matrix = (u64)expert[c.group] * (DOWN ? 1 : 2) * a.n;
    const bf16 *from = a.w + (matrix + c.tile * (DOWN ? 16 : 8)) * a.k + c.k + lane * 8, *up = from + (u64)a.n * a.k;
    int left = a.k - c.k - lane * 8;
#pragma unroll
    for (int j = 0; j < 16; j++) {
      bool second = !DOWN && j >= 8;
      const bf16 *row = (second ? up : from) + (u64)((u32)(second ? j - 8 : j) * (u32)a.k);
#pragma unroll
      for (int i = 0; i < CHUNKS; i += WARP)
        if (i * 8 < left) copy16_once(to + j * PITCH + i * 16, row + i * 8, policy);
    }
  }

  // input is the row of the inputs for pair i of a group, -1 for none. The pairs of a group come
  // first.
  __device__ __forceinline__ int input(int group, int i) const {
    if (XR == 1) return DOWN ? group : 0;
    int at = place[group * GROUP_PAIRS + i];
    return DOWN && at >= 0 ? at & 0xffff : at >> 16;
  }

  __device__ __forceinline__ void copy_inputs(const Cursor &c, int lane) const {
    u32 to = shared_address(ring) + c.slot * STAGE + 16 * PITCH + lane * 16;
    int left = a.k - c.k - lane * 8;
    int rows[XR];
#pragma unroll
    for (int r = 0; r < XR; r++) rows[r] = input(c.group, r);
#pragma unroll
    for (int r = 0; r < XR; r++) {
      if (rows[r] < 0) break;
      const bf16 *from = a.x + (u64)rows[r] * a.k + c.k + lane * 8;
#pragma unroll
      for (int i = 0; i < CHUNKS; i += WARP)
        if (i * 8 < left) copy16(to + r * PITCH + i * 16, from + i * 8);
    }
    barrier_arrive_copied(full + c.slot);
  }

  // jump advances to the warp's next stage.
  __device__ __forceinline__ void jump(Cursor &c) const {
#pragma unroll 1
    for (int i = 0; i < FILLERS; i++) next(c);
  }

  // produce fills the ring with the stages of one warp. Weights do not wait for the kernel before.
  __device__ void produce(int thread) const {
    u64 policy = evict_first();
    int lane = thread % WARP, mine = thread / WARP;
    if (mine >= FILLERS) {
      wait_for_previous();
      return;
    }
    Cursor w = first(1);
    for (int i = 0; i < mine; i++) next(w);
    if (DOWN) {
      Cursor x = w;
      int ahead = mine;
      for (; ahead < STAGES && w.item < items; ahead += FILLERS, jump(w)) copy_weights(w, lane, policy);
      let_next_start();
      wait_for_previous();
      for (; ahead > mine; ahead -= FILLERS, jump(x)) copy_inputs(x, lane);
    }
    for (; w.item < items; jump(w)) {
      barrier_wait(empty + w.slot, w.phase);
      copy_weights(w, lane, policy);
      copy_inputs(w, lane);
    }
  }

  // multiply accumulates one group and tile, stage by stage.
  __device__ __forceinline__ void multiply(Cursor &c, float sum[4]) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, base = warp * UNITS * 32;
    int item = c.item, group = c.group;
    while (c.item == item && c.group == group) {
      int k = c.k;
      barrier_wait(full + c.slot, c.phase);
      const u8 *w = ring + c.slot * STAGE + g * PITCH + (base + t * 8) * 2;
      const u8 *x = ring + c.slot * STAGE + (16 + min(g, XR - 1)) * PITCH + (base + t * 8) * 2;
#pragma unroll
      for (int u = 0; u < UNITS; u++) {
        if (k + base + u * 32 >= a.k) break;
        uint4 p = *(const uint4 *)(w + u * 64), q = *(const uint4 *)(w + u * 64 + 8 * PITCH), v = *(const uint4 *)(x + u * 64);
        mma(sum, p.x, q.x, p.y, q.y, v.x, v.y);
        mma(sum, p.z, q.z, p.w, q.w, v.z, v.w);
      }
      arrive_warp(empty + c.slot);
      next(c);
    }
  }
};

// ExpertGateUp is experts_gate_up with the activation.
template <int XR, int KS, int STAGES>
struct ExpertGateUp : ExpertRing<XR, KS, STAGES, false> {
  using Ring = ExpertRing<XR, KS, STAGES, false>;
  using Cursor = typename Ring::Cursor;
  static constexpr int RED = XR * RED_PITCH; // floats of one warp's sums

  // scales computes the reciprocal norms of the tokens.
  __device__ __forceinline__ void scales(float *scale) const {
    const ExpertArgs &a = this->a;
    for (int row = threadIdx.x / WARP; row < a.rows; row += CONSUMERS) {
      float ss = 0.f;
      if (a.squares)
        for (int i = threadIdx.x % WARP; i < a.k / 16; i += WARP) ss += __ldcg(a.squares + (u64)row * (a.k / 16) + i);
      ss = warp_sum(ss);
      if (threadIdx.x % WARP == 0) scale[row] = a.squares ? rsqrtf(ss / a.k + a.eps) : 1.f;
    }
    sync_threads_of(1, CONSUMERS * WARP);
  }

  // consume writes act[pairs][n]. The sums of two items alternate, so one barrier for each item is
  // enough.
  __device__ void consume(float *red, const float *scale, bf16 *act) const {
    const ExpertArgs &a = this->a;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    Cursor c = this->first(0);
    while (c.item < this->items) {
      int group = c.group, tile = c.tile;
      float sum[4] = {};
      this->multiply(c, sum);
      float *mine = red + warp * RED + g;
#pragma unroll
      for (int i = 0; i < 2; i++)
        if (2 * t + i < XR) mine[(2 * t + i) * RED_PITCH] = sum[i], mine[(2 * t + i) * RED_PITCH + 8] = sum[2 + i];
      sync_threads_of(1, CONSUMERS * WARP);
      if (threadIdx.x < 8 * XR) {
        int r = threadIdx.x % 8, i = threadIdx.x / 8, p = XR == 1 ? group : this->place[group * GROUP_PAIRS + i];
        float gate = 0.f, up = 0.f;
#pragma unroll
        for (int w = 0; w < CONSUMERS; w++) gate += red[w * RED + i * RED_PITCH + r], up += red[w * RED + i * RED_PITCH + 8 + r];
        if (p >= 0) {
          float s = scale[XR == 1 ? 0 : p >> 16];
          act[(u64)(p & 0xffff) * a.n + tile * 8 + r] = to_16bit(activate(gate * s) * (up * s));
        }
      }
      red += red == first_red ? CONSUMERS * RED : -CONSUMERS * RED;
    }
  }

  const float *first_red;
};

template <int XR, int KS, int STAGES>
__device__ __forceinline__ void gate_up(const ExpertArgs &a, bf16 *act) {
  using Kernel = ExpertGateUp<XR, KS, STAGES>;
  DYNAMIC_SHARED(ring);
  __shared__ u64 full[STAGES], empty[STAGES];
  __shared__ float red[2 * CONSUMERS * Kernel::RED];
  int *expert = (int *)(ring + STAGES * Kernel::STAGE), *place = expert + a.most;
  float *scale = (float *)(XR == 1 ? place : place + a.most * GROUP_PAIRS);
  Kernel l = {{a, ring, full, empty, expert, place, nullptr, 0, 0}, red};
  l.slots();
  wait_for_previous();
  l.list();
  __syncthreads();
  if (threadIdx.x >= CONSUMERS * WARP) {
    let_next_start(); // The next kernel reads the choice of the experts before this one ends.
    l.produce(threadIdx.x - CONSUMERS * WARP);
    return;
  }
  l.scales(scale);
  l.consume(red, scale, act);
}

// ExpertDown is experts_down with the weighted sum over a token's experts and the residual sum.
template <int XR, int KS, int STAGES>
struct ExpertDown : ExpertRing<XR, KS, STAGES, true> {
  using Ring = ExpertRing<XR, KS, STAGES, true>;
  using Cursor = typename Ring::Cursor;

  float *x;         // the stream, [rows][n]
  bf16 *h;          // the stream times norm, unless norm is null
  float *sums; // [rows][n/16], sums of squares for the next norm, unless norm is null
  const bf16 *norm; // weights of the next norm

  // A Stream is the part of the residual stream that a thread adds to, with the norm's weights. It is
  // loaded while the weights are in flight.
  static constexpr int EACH = XR == 1 ? 1 : 4; // results of a thread, of up to 64 tokens
  struct Stream {
    float x[EACH], gain[EACH];
  };

  __device__ __forceinline__ void load_stream(Stream &s, int tile) const {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      int i = threadIdx.x + e * CONSUMERS * WARP, r = i % 16, row = i / 16;
      s.x[e] = s.gain[e] = 0.f;
      if (row >= this->a.rows) continue;
      if (RANKS == 1) s.x[e] = __ldcg(x + (u64)row * this->a.n + tile * 16 + r);
      if (norm) s.gain[e] = gain(to_float(norm[tile * 16 + r]));
    }
  }

  // consume adds up 16 outputs of all tokens. Each warp sums its part of the columns:
  // sum[warps][rows][RED_PITCH].
  __device__ void consume(float *sum) const {
    const ExpertArgs &a = this->a;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    float *mine = sum + warp * a.rows * RED_PITCH + g;
    Cursor c = this->first(0);
    while (c.item < this->items) {
      int tile = c.tile;
      float whole[2] = {};
      Stream stream;
      load_stream(stream, tile);
      if constexpr (XR > 1) {
        for (int i = lane; i < a.rows * RED_PITCH; i += WARP) sum[warp * a.rows * RED_PITCH + i] = 0.f;
        __syncwarp();
      }
      for (int group = 0; group < this->groups; group++) {
        float v[4] = {};
        this->multiply(c, v);
        if constexpr (XR == 1) {
          whole[0] += this->share[group] * v[0], whole[1] += this->share[group] * v[2];
        } else {
#pragma unroll
          for (int i = 0; i < 2; i++) {
            int at = group * GROUP_PAIRS + 2 * t + i, row = this->place[at] >> 16;
            if (row < 0) continue;
            float *to = mine + row * RED_PITCH;
            to[0] += this->share[at] * v[i], to[8] += this->share[at] * v[2 + i];
          }
          __syncwarp(); // Another lane has the token in the next group.
        }
      }
      if (XR == 1 && t == 0) mine[0] = whole[0], mine[8] = whole[1];
      sync_threads_of(1, CONSUMERS * WARP);
      finish(sum, tile, stream);
      sync_threads_of(1, CONSUMERS * WARP);
    }
  }

  // finish is the residual epilogue of gemm_skinny.cu; 16 neighbouring threads have the outputs of a
  // token.
  __device__ __forceinline__ void finish(const float *sum, int tile, const Stream &stream) const {
    const ExpertArgs &a = this->a;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      int i = threadIdx.x + e * CONSUMERS * WARP, r = i % 16, row = i / 16;
      if (i / WARP * WARP >= a.rows * 16) return; // The condition is the same for the whole warp.
      bool is = row < a.rows;
      u64 at = (u64)row * a.n + tile * 16 + r;
      float y = 0.f;
#pragma unroll
      for (int w = 0; w < CONSUMERS; w++) y += is ? sum[(w * a.rows + row) * RED_PITCH + r] : 0.f;
      if (is) x[at] = y += stream.x[e];
#if RANKS == 1 // With several ranks x is an exchange buffer, and all_reduce does the rest.
      if (!norm) continue;
      if (is) h[at] = to_16bit(y * stream.gain[e]);
      float ss = y * y;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (is && r == 0) sums[(u64)row * (a.n / 16) + tile] = ss;
#endif
    }
  }
};

template <int XR, int KS, int STAGES>
__device__ __forceinline__ void down(const ExpertArgs &a, float *x, bf16 *h, float *sums, const bf16 *norm) {
  using Kernel = ExpertDown<XR, KS, STAGES>;
  DYNAMIC_SHARED(ring);
  __shared__ u64 full[STAGES], empty[STAGES];
  int *expert = (int *)(ring + STAGES * Kernel::STAGE), *place = expert + a.most;
  float *share = (float *)(XR == 1 ? place : place + a.most * GROUP_PAIRS), *sum = share + a.most * (XR == 1 ? 1 : GROUP_PAIRS);
  Kernel l = {{a, ring, full, empty, expert, place, share, 0, 0}, x, h, sums, norm};
  l.slots();
  l.list();
  __syncthreads();
  if (threadIdx.x >= CONSUMERS * WARP) {
    l.produce(threadIdx.x - CONSUMERS * WARP);
    return;
  }
  wait_for_previous();
  l.consume(sum);
}

#define EXPERTS_OF(rows, GATE_DEPTH, GATE_STAGES, DOWN_DEPTH, DOWN_STAGES)                                                                           \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 2)                                                                    \
      experts_gate_up_##rows(const bf16 *w, const bf16 *x, const float *squares, const int *chosen, const int *order, const int *groups, int hidden, \
                             int inner, int top, int tokens, int most, float eps, bf16 *act) {                                                       \
    ExpertArgs a = {w, x, chosen, nullptr, order, groups, inner, hidden, top, tokens, most, eps, squares};                                           \
    gate_up<rows, GATE_DEPTH, GATE_STAGES>(a, act);                                                                                                  \
  }                                                                                                                                                  \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 2)                                                                    \
      experts_down_##rows(const bf16 *w, const bf16 *act, const int *chosen, const float *shares, const int *order, const int *groups, int hidden,   \
                          int inner, int top, int tokens, int most, float *x, bf16 *h, float *sums, const bf16 *norm) {                              \
    ExpertArgs a = {w, act, chosen, shares, order, groups, hidden, inner, top, tokens, most, 0.f, nullptr};                                          \
    down<rows, DOWN_DEPTH, DOWN_STAGES>(a, x, h, sums, norm);                                                                                        \
  }
#define EXPERTS_WITH(rows, ...) EXPERTS_OF(rows, __VA_ARGS__)

EXPERTS_WITH(1, EXPERTS_1)
EXPERTS_WITH(8, EXPERTS_8)

#endif
