// Elementwise operators, the embedding and sampling.

// gather_row loads several values before it stores the first, because each comes from DRAM or from
// another GPU.
__device__ __forceinline__ void gather_row(const bf16 *from, u64 row, float *x, int hidden, bf16 *xn, float *squares, const bf16 *norm) {
  for (int first = threadIdx.x; first < hidden; first += 4 * blockDim.x) {
    float v[4], g[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int i = first + j * blockDim.x;
      v[j] = i < hidden ? to_float(from[i]) : 0.f, g[j] = i < hidden && xn != nullptr ? gain(to_float(norm[i])) : 0.f;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int i = first + j * blockDim.x;
      if (i >= hidden) break;
#ifdef EMBED_SCALE
      v[j] *= EMBED_SCALE;
#endif
      x[row * hidden + i] = v[j];
      if (xn == nullptr) continue;
      xn[row * hidden + i] = to_16bit(v[j] * g[j]);
      float ss = v[j] * v[j];
#pragma unroll
      for (int o = 8; o > 0; o /= 2) ss += __shfl_xor_sync(__activemask(), ss, o);
      if (i % 16 == 0) squares[row * (hidden / 16) + i / 16] = ss;
    }
  }
}

// embedding writes the row of each token to the residual stream x, in float32. In a decode step it
// also prepares the first GEMM: xn = x times the norm's weights, and the sum of squares of each 16
// values.
//
//   tokens[rows], table[vocab][hidden], x[rows][hidden], xn[rows][hidden], squares[rows][hidden/16]
extern "C" __global__ void embedding(const int *tokens, const bf16 *table, float *x, int hidden, bf16 *xn, float *squares, const bf16 *norm) {
  let_next_start();
  after_previous();
  u64 row = blockIdx.x;
  gather_row(table + (u64)tokens[row] * hidden, row, x, hidden, xn, squares, norm);
}

// rms_norm is RMSNorm (arXiv:1910.07467): y = x / rms(x) * w. It reads every stride-th row, so that it
// can take the last position of each prompt.
extern "C" __global__ void rms_norm(const float *x, const bf16 *w, bf16 *y, int hidden, float eps, u64 stride, u64 first) {
  __shared__ float part[WARP];
  let_next_start();
  after_previous();
  const float *in = x + (first + blockIdx.x * stride) * hidden;
  bf16 *out = y + (u64)blockIdx.x * hidden;
  float ss = 0.f;
  for (int i = threadIdx.x * 4; i < hidden; i += blockDim.x * 4) {
    float4 v = *(const float4 *)(in + i);
    ss += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  ss = warp_sum(ss);
  if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = ss;
  __syncthreads();
  ss = 0.f;
  for (int i = 0; i < blockDim.x / WARP; i++) ss += part[i];
  float r = rsqrtf(ss / hidden + eps);
  for (int i = threadIdx.x * 4; i < hidden; i += blockDim.x * 4) {
    float4 v = *(const float4 *)(in + i);
    uint2 g = *(const uint2 *)(w + i);
    uint2 o = {pack(v.x * r * gain(low(g.x)), v.y * r * gain(high(g.x))), pack(v.z * r * gain(low(g.y)), v.w * r * gain(high(g.y)))};
    *(uint2 *)(out + i) = o;
  }
}

// activation is out = activate(gate)*up for [rows][2*width] with gate first.
extern "C" __global__ void activation(const bf16 *in, bf16 *out, int width) {
  let_next_start();
  after_previous();
  u64 row = blockIdx.y;
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (i >= width) return;
  uint4 g = *(const uint4 *)(in + row * 2 * width + i);
  uint4 u = *(const uint4 *)(in + row * 2 * width + width + i);
  const u32 *gs = &g.x, *us = &u.x;
  uint4 o;
  u32 *os = &o.x;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    float a = low(gs[k]), b = high(gs[k]);
    os[k] = pack(activate(a) * low(us[k]), activate(b) * high(us[k]));
  }
  *(uint4 *)(out + row * width + i) = o;
}

// rotary applies q/k norm and RoPE to the heads of a prompt, which have their biases: q in place, k
// and v into the cache. One block does one token, and one warp one head at a time.
//
//   qkv[batch*length][(heads+2*kv_heads)*HEAD_DIM], k_cache[batch][kv_heads][capacity][HEAD_DIM]
extern "C" __global__ void rotary(bf16 *qkv, const bf16 *q_norm, const bf16 *k_norm, const float *frequencies, bf16 *k_cache,
                                  bf16 *v_cache, int kv_heads, int length, int capacity, float eps) {
  int heads = kv_heads * GROUP, lane = threadIdx.x % WARP;
  int pos = blockIdx.x % length, seq = blockIdx.x / length;
  Angles turn = angles(frequencies, pos);
  bf16 *row = qkv + (u64)blockIdx.x * (heads + 2 * kv_heads) * HEAD_DIM;
  for (int h = threadIdx.x / WARP; h < heads + 2 * kv_heads; h += blockDim.x / WARP) {
    float v[HEAD_LANE];
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) v[i] = to_float(row[h * HEAD_DIM + lane + WARP * i]);
    bf16 *to = row + h * HEAD_DIM;
    if (h >= heads) {
      int kv = (h - heads) % kv_heads;
      to = (h < heads + kv_heads ? k_cache : v_cache) + (((u64)seq * kv_heads + kv) * capacity + pos) * HEAD_DIM;
    }
    if (h < heads + kv_heads) prepare_head(v, h < heads ? q_norm : k_norm, eps, turn);
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) to[lane + WARP * i] = to_16bit(v[i]);
  }
}

// warp_most is the maximum over a warp.
__device__ __forceinline__ u64 warp_most(u64 v) {
#pragma unroll
  for (int o = WARP / 2; o > 0; o /= 2) {
    u64 other = __shfl_xor_sync(FULL, v, o);
    v = other > v ? other : v;
  }
  return v;
}

// best_score finds the highest score of a sequence, the lowest index among equals, and returns it to
// one thread of the last block of the sequence to finish, with index and score packed to a number that
// orders as they do. It applies a soft cap to the scores on the way. `first` is the index of the first
// score. best and arrived are zero before and after.
__device__ __forceinline__ bool best_score(float *logits, int vocab, u32 first, u64 *best, u32 *arrived, u64 &winner) {
  __shared__ u64 tops[WARP];
  constexpr int AHEAD = 8; // scores that a thread has in flight
  int seq = blockIdx.y, warp = threadIdx.x / WARP, step = gridDim.x * blockDim.x;
  float *row = logits + (u64)seq * vocab;
  u64 top = 0;
  for (int from = blockIdx.x * blockDim.x + threadIdx.x; from < vocab; from += AHEAD * step) {
    float v[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) v[j] = from + j * step < vocab ? __ldcg(row + from + j * step) : 0.f;
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
      int i = from + j * step;
      if (i >= vocab) break;
#ifdef LOGIT_SOFTCAP
      row[i] = v[j] = bend(v[j], LOGIT_SOFTCAP);
#endif
      u32 bits = __float_as_uint(v[j]);
      bits ^= (bits >> 31) ? 0xffffffffu : 0x80000000u; // The bits then order as the floats do.
      u64 key = (u64)bits << 32 | (0xffffffffu - (first + (u32)i));
      top = key > top ? key : top;
    }
  }
  top = warp_most(top);
  if (threadIdx.x % WARP == 0) tops[warp] = top;
  __syncthreads();
  if (warp > 0) return false;
  top = warp_most(threadIdx.x < blockDim.x / WARP ? tops[threadIdx.x] : 0);
  if (threadIdx.x != 0) return false;
  atomicMax(best + seq, top);
  __threadfence();
  if (atomicAdd(arrived + seq, 1) != gridDim.x - 1) return false;
  winner = atomicExch(best + seq, 0ull);
  arrived[seq] = 0;
  return true;
}

// token is the token of a packed best score.
__device__ __forceinline__ int token(u64 winner) { return (int)(0xffffffffu - (u32)winner); }

// sampling takes the best score of each sequence as the next token, and advances the position.
//
//   logits[batch][vocab], best[batch], arrived[batch], next[batch], positions[batch]
//   next_host[batch] is host memory: a copy after the kernel would take some 10 us of a step's graph
extern "C" __global__ void sampling(float *logits, int vocab, u64 *best, u32 *arrived, int *next, int *positions, int *next_host) {
  let_next_start();
  after_previous();
  u64 winner;
  if (!best_score(logits, vocab, 0, best, arrived, winner)) return;
  next[blockIdx.y] = next_host[blockIdx.y] = token(winner);
  positions[blockIdx.y] += 1;
}
