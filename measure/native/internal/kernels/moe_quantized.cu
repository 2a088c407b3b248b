// The MoE decode kernels with quantized weights: one warp computes one output, as in moe.cu. A lane
// takes 16 bytes of a row at a time as they lie in DRAM (quantized.cuh) and dequantizes them to 16
// bits. The scales and zero points of a layer's experts lie together, as do the rows: gate before up,
// expert after expert.

#if MOE && defined(QUANTIZED)

// An ExpertRow is one row of k quantized weights.
struct ExpertRow {
  const u8 *w;
  const void *scales;
  const u8 *zeros;
  u64 row, rows;
  int k;

  // lane_sum is the lane's part of the row's product with the inputs, multiplied by the scales.
  __device__ __forceinline__ float lane_sum(const bf16 *in) const {
    int lane = threadIdx.x % WARP;
    const u8 *from = w + row * (u64)(k / 8 * QUANTIZED);
    float sum = 0.f;
#pragma unroll 4
    for (int p = lane; p < k / (128 / QUANTIZED); p += WARP) {
      uint4 v = *(const uint4 *)(from + p * 16);
      const u32 *words = &v.x;
      const bf16 *x = in + p / 4 * UNIT + p % 4 * 8;
      float s = 0.f;
#if QUANTIZED == 8
#pragma unroll
      for (int j = 0; j < STEPS; j++) {
        uint4 o;
        pairs(words[2 * j], o.x, o.y), pairs(words[2 * j + 1], o.z, o.w);
        s += dot8(o, load8(x + j * 32));
      }
      sum += s;
#else
      u64 at = (u64)(p / 4) * rows + row; // A unit is a group.
      u32 minus = minus_zero(zeros[at / 2] >> row % 2 * 4 & 15);
#pragma unroll
      for (int j = 0; j < STEPS; j++) {
        u32 o[4];
        pairs(words[j], minus, o);
        s += dot8(make_uint4(o[0], o[1], o[2], o[3]), load8(x + j * 32));
      }
      sum += s * to_float(((const bf16 *)scales)[at]);
#endif
    }
    return QUANTIZED == 8 ? sum * ((const float *)scales)[row] : sum;
  }
};

// experts_gate_up_quantized is gate and up of the chosen experts with the activation. Blocks of the
// same outputs follow each other.
//
//   w[experts][gate and up][inner][hidden], x[rows][hidden], squares[rows][hidden/16] of x,
//   act[rows][top][inner]
extern "C" __global__ void __launch_bounds__(256)
    experts_gate_up_quantized(const u8 *w, const void *scales, const u8 *zeros, const bf16 *x, const float *squares, const int *chosen, int experts, int hidden,
                           int inner, int top, float eps, bf16 *act) {
  let_next_start();
  after_previous();
  int lane = threadIdx.x % WARP, o = blockIdx.y * 8 + threadIdx.x / WARP;
  u64 pair = blockIdx.x, row = pair / top;
  if (o >= inner) return;
  ExpertRow gate = {w, scales, zeros, (u64)chosen[pair] * 2 * inner + o, (u64)experts * 2 * inner, hidden}, up = gate;
  up.row += inner;
  const bf16 *in = x + row * hidden;
  float ss = 0.f, g = gate.lane_sum(in), u = up.lane_sum(in);
  for (int i = lane; i < hidden / 16; i += WARP) ss += squares[row * (hidden / 16) + i];
  float scale = rsqrtf(warp_sum(ss) / hidden + eps);
  g = warp_sum(g) * scale, u = warp_sum(u) * scale;
  if (lane == 0) act[pair * inner + o] = to_16bit(activate(g) * u);
}

// experts_down_quantized is down, with the weighted sum over a token's experts and the residual
// epilogue of gemm_skinny.cu.
//
//   w[experts][hidden][inner], act[rows][top][inner], x, h[rows][hidden], sums[rows][hidden/16]
extern "C" __global__ void __launch_bounds__(512)
    experts_down_quantized(const u8 *w, const void *scales, const u8 *zeros, const bf16 *act, const int *chosen, const float *weights, int experts, int hidden,
                        int inner, int top, float *x, bf16 *h, float *sums, const bf16 *norm) {
  let_next_start();
  after_previous();
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, o = blockIdx.y * 16 + warp;
  u64 row = blockIdx.x;
  float y = 0.f;
  for (int k = 0; k < top; k++) {
    ExpertRow down = {w, scales, zeros, (u64)chosen[row * top + k] * hidden + o, (u64)experts * hidden, inner};
    y += weights[row * top + k] * down.lane_sum(act + (row * top + k) * inner);
  }
  y = warp_sum(y);
#if RANKS > 1 // x is an exchange buffer, and all_reduce does the rest.
  if (lane == 0) x[row * hidden + o] = y;
#else
  __shared__ float part[16];
  if (lane == 0) {
    u64 at = row * hidden + o;
    float v = x[at] + y;
    x[at] = v;
    h[at] = to_16bit(v * gain(to_float(norm[o])));
    part[warp] = v * v;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  float ss = 0.f;
#pragma unroll
  for (int i = 0; i < 16; i++) ss += part[i];
  sums[row * (hidden / 16) + blockIdx.y] = ss;
#endif
}

#endif
