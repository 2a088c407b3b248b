// MoE layers: the choice of the experts, and grouped GEMMs. The weights of a layer's experts lie one
// behind the other, gate before up.

#if MOE

#define EXPERT_LANE 8 // experts of a lane: 256 in all

// choose_experts chooses the experts of a token by the softmax of the router's scores: the top
// highest, the lower index among equals. If normalized, their weights sum to 1. One warp calls it.
__device__ __forceinline__ void choose_experts(const float *scores, int experts, int top, int normalized, int *chosen, float *weights) {
  int lane = threadIdx.x % WARP;
  float v[EXPERT_LANE], peak = -INFINITY, sum = 0.f, taken = 0.f;
#pragma unroll
  for (int i = 0; i < EXPERT_LANE; i++) {
    int e = lane + WARP * i;
    v[i] = e < experts ? scores[e] : -INFINITY;
    peak = fmaxf(peak, v[i]);
  }
#pragma unroll
  for (int o = WARP / 2; o > 0; o /= 2) peak = fmaxf(peak, __shfl_xor_sync(FULL, peak, o));
#pragma unroll
  for (int i = 0; i < EXPERT_LANE; i++) sum += v[i] = __expf(v[i] - peak);
  sum = warp_sum(sum);
  for (int k = 0; k < top; k++) {
    u64 best = 0; // the bits of a weight, which is not negative, so that they order as it does, and its index
#pragma unroll
    for (int i = 0; i < EXPERT_LANE; i++) {
      int e = lane + WARP * i;
      u64 key = v[i] < 0.f || e >= experts ? 0 : (u64)__float_as_uint(v[i]) << 32 | (0xffffffffu - (u32)e);
      best = key > best ? key : best;
    }
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) {
      u64 other = __shfl_xor_sync(FULL, best, o);
      best = other > best ? other : best;
    }
    u32 e = 0xffffffffu - (u32)best;
    float w = __uint_as_float((u32)(best >> 32));
    taken += w;
    if (lane == 0) chosen[k] = (int)e, weights[k] = w;
#pragma unroll
    for (int i = 0; i < EXPERT_LANE; i++)
      if (e == lane + WARP * i) v[i] = -1.f; // The expert is not chosen again.
  }
  __syncwarp();
  if (lane < top) weights[lane] /= normalized ? taken : sum;
}

// top_k chooses the experts of each token, one warp a token.
//
//   scores[rows][experts], chosen[rows][top], weights[rows][top]
extern "C" __global__ void top_k(const float *scores, int experts, int top, int normalized, int *chosen, float *weights) {
  let_next_start();
  after_previous();
  u64 row = blockIdx.x;
  choose_experts(scores + row * experts, experts, top, normalized, chosen + row * top, weights + row * top);
}

// dot8 is the product of eight pairs of values.
__device__ __forceinline__ float dot8(const uint4 &a, const uint4 &b) {
  const u32 *x = &a.x, *y = &b.x;
  float s = 0.f;
#pragma unroll
  for (int i = 0; i < 4; i++) s += low(x[i]) * low(y[i]) + high(x[i]) * high(y[i]);
  return s;
}

__device__ __forceinline__ uint4 load8(const bf16 *p) { return *(const uint4 *)p; }

// experts_gate_up is gate and up of the chosen experts with the activation, for decoding: a warp
// computes one output of a token and one of its experts. Blocks of the same outputs follow each other,
// so that an expert which two tokens share is read from memory once.
//
//   w[experts][gate and up][inner][hidden], x[rows][hidden], squares[rows][hidden/16] of x,
//   act[rows][top][inner]
extern "C" __global__ void __launch_bounds__(256)
    experts_gate_up(const bf16 *w, const bf16 *x, const float *squares, const int *chosen, int hidden, int inner, int top, float eps, bf16 *act) {
  after_previous();
  let_next_start(); // The next kernel reads the choice of the experts before this one ends.
  int lane = threadIdx.x % WARP, o = blockIdx.y * 8 + threadIdx.x / WARP;
  u64 pair = blockIdx.x, row = pair / top;
  if (o >= inner) return;
  const bf16 *gate = w + ((u64)chosen[pair] * 2 * inner + o) * hidden, *up = gate + (u64)inner * hidden, *in = x + row * hidden;
  float g = 0.f, u = 0.f, ss = 0.f;
#pragma unroll 4
  for (int i = lane * 8; i < hidden; i += WARP * 8) {
    uint4 v = load8(in + i);
    g += dot8(load8(gate + i), v), u += dot8(load8(up + i), v);
  }
  for (int i = lane; i < hidden / 16; i += WARP) ss += squares[row * (hidden / 16) + i];
  float scale = rsqrtf(warp_sum(ss) / hidden + eps);
  g = warp_sum(g) * scale, u = warp_sum(u) * scale;
  if (lane == 0) act[pair * inner + o] = to_16bit(activate(g) * u);
}

// In a prefill the pairs of a token and an expert are sorted by expert into tiles of PAIRS with one
// expert each, and a grouped GEMM takes a tile at a time.
#define PAIRS 64

// group sorts the pairs into tiles of size pairs: order[tile][size] is the pairs, -1 if a tile has
// fewer; tiles is the number of tiles, followed by the expert of each. One block calls it.
__device__ __forceinline__ void group(const int *chosen, int pairs, int experts, int size, int *order, int *tiles) {
  __shared__ int count[WARP * EXPERT_LANE], next[WARP * EXPERT_LANE], all;
  for (int e = threadIdx.x; e < experts; e += blockDim.x) count[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) atomicAdd(count + chosen[i], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    int begin = 0, mine = (count[e] + size - 1) / size;
    for (int f = 0; f < e; f++) begin += (count[f] + size - 1) / size;
    for (int t = 0; t < mine; t++) tiles[1 + begin + t] = e;
    next[e] = begin * size;
    if (e == experts - 1) all = tiles[0] = begin + mine;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < all * size; i += blockDim.x) order[i] = -1;
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) order[atomicAdd(next + chosen[i], 1)] = i;
}

// group_pairs sorts the pairs into tiles of PAIRS. It is one block.
extern "C" __global__ void group_pairs(const int *chosen, int pairs, int experts, int *order, int *tiles) {
  group(chosen, pairs, experts, PAIRS, order, tiles);
}

#define DEEP 64 // columns of a stage
#define MOE_STAGE ((PAIRS + 64) * DEEP * 2)

__device__ __forceinline__ u32 cell(u32 base, int row, int c) { return base + (row * (DEEP / 8) + (c ^ (row & 7))) * 16; }

// A Grouped GEMM is one tile of pairs times 64 weight rows of its expert: 32 of the gate and 32 of up,
// or 64 of down. Each of four warps has 16 pairs.
template <bool GATE>
struct Grouped {
  const bf16 *w, *x; // weights of the tile's expert; inputs of tokens (GATE) or of pairs
  const int *rows;   // the tile's pairs
  int n, k, top;

  __device__ __forceinline__ void copy(u32 stage, int col) const {
    for (int i = threadIdx.x; i < (PAIRS + 64) * (DEEP / 8); i += 4 * WARP) {
      int r = i / (DEEP / 8), c = i % (DEEP / 8);
      const bf16 *from;
      int bytes = col + c * 8 < k ? 16 : 0; // The last stage may be half full.
      if (r < PAIRS) {
        int p = rows[r];
        bytes = p < 0 ? 0 : bytes;
        from = x + (u64)(p < 0 ? 0 : GATE ? p / top : p) * k;
      } else {
        int o = r - PAIRS;
        from = w + (u64)(GATE ? blockIdx.x * 32 + o % 32 + o / 32 * n : blockIdx.x * 64 + o) * k;
      }
      copy16_or_zero(cell(stage, r, c), from + col + c * 8, bytes);
    }
  }

  __device__ __forceinline__ void multiply(float c[8][4]) const {
    DYNAMIC_SHARED(stages);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, mi = lane / 8, mr = lane % 8;
    u32 base = shared_address(stages);
    copy(base, 0);
    commit();
    for (int j = 0; j * DEEP < k; j++) {
      if ((j + 1) * DEEP < k) copy(base + (j + 1) % 2 * MOE_STAGE, (j + 1) * DEEP);
      commit();
      wait_copies<1>();
      __syncthreads();
      u32 a = base + j % 2 * MOE_STAGE, b = a + PAIRS * DEEP * 2;
#pragma unroll
      for (int d = 0; d < DEEP / 16; d++) {
        u32 p[4];
        ldmatrix(p, cell(a, warp * 16 + (mi & 1) * 8 + mr, d * 2 + (mi >> 1)));
#pragma unroll
        for (int i = 0; i < 4; i++) {
          u32 q[4];
          ldmatrix(q, cell(b, i * 16 + (mi >> 1) * 8 + mr, d * 2 + (mi & 1)));
          mma(c[2 * i], p[0], p[1], p[2], p[3], q[0], q[1]);
          mma(c[2 * i + 1], p[0], p[1], p[2], p[3], q[2], q[3]);
        }
      }
      __syncthreads();
    }
  }

  // store writes both values that a lane has for row h and columns 8i.
  __device__ __forceinline__ void store(bf16 *out, int h, int i, float v0, float v1) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, p = rows[warp * 16 + lane / 4 + h * 8];
    if (p >= 0) *(u32 *)(out + (u64)p * n + blockIdx.x * (GATE ? 32 : 64) + i * 8 + lane % 4 * 2) = pack(v0, v1);
  }
};

// prompts_gate_up is experts_gate_up of many tokens; x is normed.
extern "C" __global__ void __launch_bounds__(4 * WARP)
    prompts_gate_up(const bf16 *w, const bf16 *x, const int *order, const int *tiles, int hidden, int inner, int top, bf16 *act) {
  int tile = blockIdx.y;
  if (tile >= tiles[0]) return;
  Grouped<true> p = {w + (u64)tiles[1 + tile] * 2 * inner * hidden, x, order + tile * PAIRS, inner, hidden, top};
  float c[8][4] = {};
  p.multiply(c);
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      p.store(act, h, i, activate(c[i][2 * h]) * c[i + 4][2 * h], activate(c[i][2 * h + 1]) * c[i + 4][2 * h + 1]);
}

// prompts_down computes each pair's output: out[rows][top][hidden].
extern "C" __global__ void __launch_bounds__(4 * WARP)
    prompts_down(const bf16 *w, const bf16 *act, const int *order, const int *tiles, int hidden, int inner, int top, bf16 *out) {
  int tile = blockIdx.y;
  if (tile >= tiles[0]) return;
  Grouped<false> p = {w + (u64)tiles[1 + tile] * hidden * inner, act, order + tile * PAIRS, hidden, inner, top};
  float c[8][4] = {};
  p.multiply(c);
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int i = 0; i < 8; i++) p.store(out, h, i, c[i][2 * h], c[i][2 * h + 1]);
}

// experts_sum adds the outputs of a token's experts, by their weights, to the stream, or leaves the
// sum for all_reduce.
extern "C" __global__ void experts_sum(const bf16 *parts, const float *weights, float *x, int hidden, int top) {
  u64 row = blockIdx.x;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float y = 0.f;
    for (int k = 0; k < top; k++) y += weights[row * top + k] * to_float(parts[(row * top + k) * hidden + i]);
#if RANKS > 1
    x[row * hidden + i] = y;
#else
    x[row * hidden + i] += y;
#endif
  }
}

#endif
