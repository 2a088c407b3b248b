// Attention of one new token a sequence over the keys and values of all before
// it, split over the context: block (s, h, b) takes part s of the context of key
// head h of sequence b, for all GROUP query heads that share it, and the last
// block of a head to finish puts the parts together (Flash-Decoding). The
// context's length is read from the device, so one recorded launch serves every
// step.
//
// The block that owns the new token's position also does what comes before
// attention for its key and value: bias, norm, rotation, and the write to the
// cache. Every block does it for the queries, which are few.
//
//   qkv[batch][(heads+2*kv_heads)*HEAD_DIM], positions[batch] = tokens in the cache
//   k_cache, v_cache[batch][kv_heads][capacity][HEAD_DIM]
//   parts[batch][kv_heads][splits][GROUP][HEAD_DIM], peaks[batch][kv_heads][splits][GROUP][2]
//   arrived[batch][kv_heads], zero before and after; out[batch][heads*HEAD_DIM]

#define ATT_WARPS 8
#define LANES (HEAD_DIM / 8)        // that share one key
#define KEYS (WARP / LANES)         // of a warp at a time
#define UNROLL 4

struct Softmax {
  float peak[GROUP], sum[GROUP], o[GROUP][8];
};

// mix adds keys with scores s and values v to the running soft-max.
__device__ __forceinline__ void mix(Softmax &a, float s[UNROLL][GROUP], const uint4 v[UNROLL]) {
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    float m = a.peak[g];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) m = fmaxf(m, s[u][g]);
    if (m == -INFINITY) continue;
    float old = exp2f(a.peak[g] - m);
    a.peak[g] = m;
    a.sum[g] *= old;
#pragma unroll
    for (int i = 0; i < 8; i++) a.o[g][i] *= old;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      float p = exp2f(s[u][g] - m);
      a.sum[g] += p;
      const u32 *w = &v[u].x;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        a.o[g][2 * i] += p * low(w[i]);
        a.o[g][2 * i + 1] += p * high(w[i]);
      }
    }
  }
}

// load_head gives a warp one head of the projections, with its bias.
__device__ __forceinline__ void load_head(float v[HEAD_LANE], const float *row, const bf16 *bias, int head) {
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) {
    int at = head * HEAD_DIM + lane + WARP * i;
    v[i] = row[at];
#if QKV_BIAS
    v[i] += wide(bias[at]);
#endif
  }
}

extern "C" __global__ void __launch_bounds__(ATT_WARPS * WARP, 1)
    attention_decode(const float *qkv, const bf16 *bias, const bf16 *q_norm, const bf16 *k_norm, const float *frequencies, bf16 *k_cache,
                     bf16 *v_cache, const int *positions, float *parts, float *peaks, u32 *arrived, bf16 *out, int capacity, float eps, float scale) {
  __shared__ float q[GROUP][HEAD_DIM];
  __shared__ float merged[ATT_WARPS][GROUP][HEAD_DIM];
  __shared__ float stats[ATT_WARPS][GROUP][2];
  __shared__ bool last;
  int split = blockIdx.x, splits = gridDim.x, head = blockIdx.y, kv_heads = gridDim.y, seq = blockIdx.z;
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  let_next_start();
  after_previous();

  int past = positions[seq], keys = past + 1;
  int chunk = (keys + splits - 1) / splits;
  chunk = (chunk + 15) / 16 * 16;
  int begin = split * chunk, end = min(keys, begin + chunk);
  const float *row = qkv + (u64)seq * (GROUP + 2) * kv_heads * HEAD_DIM;
  u64 cache = ((u64)seq * kv_heads + head) * capacity * HEAD_DIM;
  const bf16 *ks = k_cache + cache, *vs = v_cache + cache;

  // Queries by the first warps, the new key and value by the last two.
  for (int g = warp; g < GROUP; g += ATT_WARPS) {
    float v[HEAD_LANE];
    load_head(v, row, bias, head * GROUP + g);
    prepare_head(v, q_norm, eps, frequencies, (float)past);
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) q[g][lane + WARP * i] = v[i] * scale * LOG2E;
  }
  if (begin <= past && past < end && warp >= ATT_WARPS - 2) {
    bool key = warp == ATT_WARPS - 1;
    float v[HEAD_LANE];
    load_head(v, row, bias, (GROUP + !key) * kv_heads + head);
    if (key) prepare_head(v, k_norm, eps, frequencies, (float)past);
    bf16 *to = (key ? k_cache : v_cache) + cache + (u64)past * HEAD_DIM;
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) to[lane + WARP * i] = narrow(v[i]);
  }
  __syncthreads();

  float mine[GROUP][8];
  Softmax a;
  int d = lane % LANES * 8;
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    a.peak[g] = -INFINITY, a.sum[g] = 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) a.o[g][i] = 0.f, mine[g][i] = q[g][d + i];
  }
  for (int first = begin + warp * KEYS; first < end; first += ATT_WARPS * KEYS * UNROLL) {
    uint4 k[UNROLL], v[UNROLL];
    float s[UNROLL][GROUP];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      int at = first + u * ATT_WARPS * KEYS + lane / LANES;
      k[u] = v[u] = make_uint4(0, 0, 0, 0);
      if (at < end) {
        k[u] = *(const uint4 *)(ks + (u64)at * HEAD_DIM + d);
        v[u] = *(const uint4 *)(vs + (u64)at * HEAD_DIM + d);
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      bool real = first + u * ATT_WARPS * KEYS + lane / LANES < end;
      const u32 *w = &k[u].x;
#pragma unroll
      for (int g = 0; g < GROUP; g++) {
        float p = 0.f;
#pragma unroll
        for (int i = 0; i < 4; i++) p += mine[g][2 * i] * low(w[i]) + mine[g][2 * i + 1] * high(w[i]);
#pragma unroll
        for (int o = LANES / 2; o > 0; o /= 2) p += __shfl_xor_sync(FULL, p, o);
        s[u][g] = real ? p : -INFINITY;
      }
    }
    mix(a, s, v);
  }

  // Keys of one warp together, by shuffles, then the warps, through shared memory.
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
#pragma unroll
    for (int o = LANES; o < WARP; o *= 2) {
      float m = fmaxf(a.peak[g], __shfl_xor_sync(FULL, a.peak[g], o));
      float f = a.peak[g] == -INFINITY ? 0.f : exp2f(a.peak[g] - m);
      a.peak[g] = m, a.sum[g] *= f;
      a.sum[g] += __shfl_xor_sync(FULL, a.sum[g], o);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        a.o[g][i] *= f;
        a.o[g][i] += __shfl_xor_sync(FULL, a.o[g][i], o);
      }
    }
    if (lane < LANES) {
#pragma unroll
      for (int i = 0; i < 8; i++) merged[warp][g][d + i] = a.o[g][i];
    }
    if (lane == 0) stats[warp][g][0] = a.peak[g], stats[warp][g][1] = a.sum[g];
  }
  __syncthreads();
  u64 slot = ((u64)seq * kv_heads + head) * splits;
  for (int i = threadIdx.x; i < GROUP * HEAD_DIM; i += ATT_WARPS * WARP) {
    int g = i / HEAD_DIM;
    float m = -INFINITY, o = 0.f, l = 0.f;
#pragma unroll
    for (int w = 0; w < ATT_WARPS; w++) m = fmaxf(m, stats[w][g][0]);
#pragma unroll
    for (int w = 0; w < ATT_WARPS; w++) {
      float f = stats[w][g][0] == -INFINITY ? 0.f : exp2f(stats[w][g][0] - m);
      o += f * merged[w][g][i % HEAD_DIM], l += f * stats[w][g][1];
    }
    __stcg(parts + (slot + split) * GROUP * HEAD_DIM + i, o);
    if (i % HEAD_DIM == 0) {
      __stcg(peaks + ((slot + split) * GROUP + g) * 2, m);
      __stcg(peaks + ((slot + split) * GROUP + g) * 2 + 1, l);
    }
  }
  __threadfence();
  __syncthreads();
  u32 *count = arrived + seq * kv_heads + head;
  if (threadIdx.x == 0) last = atomicAdd(count, 1) == splits - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (threadIdx.x == 0) *count = 0;
  for (int i = threadIdx.x; i < GROUP * HEAD_DIM; i += ATT_WARPS * WARP) {
    int g = i / HEAD_DIM;
    float m = -INFINITY, o = 0.f, l = 0.f;
    for (int s = 0; s < splits; s++) m = fmaxf(m, __ldcg(peaks + ((slot + s) * GROUP + g) * 2));
    for (int s = 0; s < splits; s++) {
      float top = __ldcg(peaks + ((slot + s) * GROUP + g) * 2);
      float f = top == -INFINITY ? 0.f : exp2f(top - m);
      o += f * __ldcg(parts + (slot + s) * GROUP * HEAD_DIM + i);
      l += f * __ldcg(peaks + ((slot + s) * GROUP + g) * 2 + 1);
    }
    out[((u64)seq * kv_heads + head) * GROUP * HEAD_DIM + i] = narrow(o / l);
  }
}
