// Attention of one new token a sequence over the keys and values of all before
// it, split over the context: block (s, h, b) takes part s of the context of key
// head h of sequence b, for all GROUP query heads that share it, and the last
// block of a head to finish puts the parts together (Flash-Decoding). The
// context's length is read from the device, so one recorded launch serves every
// step.
//
// What does not depend on the step's projections (the position, its angles, the
// first keys and values) is loaded before the kernel ahead has ended.
//
// The block that owns the new token's position also does what comes before
// attention for its key and value: bias, norm, rotation, and the write to the
// cache. Every block does it for the queries, which are few.
//
//   qkv[batch][(heads+2*kv_heads)*HEAD_DIM], positions[batch] = tokens in the cache
//   k_cache, v_cache[batch][kv_heads][capacity][HEAD_DIM]
//   parts[batch][kv_heads][splits][GROUP][HEAD_DIM], peaks[batch][kv_heads][splits][GROUP][2]
//   capacity is that of the layer: of a layer with a window, no more than the window
//   arrived[batch][kv_heads], zero before and after; out[batch][heads*HEAD_DIM]

#define ATT_WARPS 8
#define LANES (HEAD_DIM / 8)        // that share one key
#define KEYS (WARP / LANES)         // of a warp at a time
#define UNROLL 2                    // rounds of keys that are loaded together

struct Softmax {
  float peak[GROUP], sum[GROUP], o[GROUP][8];
};

// score is q·k for each head, the same in all lanes that share the key.
__device__ __forceinline__ void score(float s[GROUP], const float q[GROUP][8], const uint4 &k, bool real) {
  const u32 *w = &k.x;
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    float p = 0.f;
#pragma unroll
    for (int i = 0; i < 4; i++) p += q[g][2 * i] * low(w[i]) + q[g][2 * i + 1] * high(w[i]);
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2) p += __shfl_xor_sync(FULL, p, o);
#ifdef ATT_SOFTCAP
    p = bend(p, ATT_SOFTCAP * LOG2E);
#endif
    s[g] = real ? p : -INFINITY;
  }
}

// mix adds N keys with scores s and values v to the running soft-max.
template <int N>
__device__ __forceinline__ void mix(Softmax &a, const float s[N][GROUP], const uint4 v[N]) {
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    float m = a.peak[g];
#pragma unroll
    for (int u = 0; u < N; u++) m = fmaxf(m, s[u][g]);
    if (m == -INFINITY) continue;
    float old = exp2f(a.peak[g] - m);
    a.peak[g] = m;
    a.sum[g] *= old;
#pragma unroll
    for (int i = 0; i < 8; i++) a.o[g][i] *= old;
#pragma unroll
    for (int u = 0; u < N; u++) {
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

// Pieces are the keys and values of one round that a lane holds.
struct Pieces {
  uint4 k[UNROLL], v[UNROLL];
};

// load_pieces loads those of the keys from first on, a warp's KEYS at a time.
__device__ __forceinline__ void load_pieces(Pieces &p, const bf16 *ks, const bf16 *vs, int first, int end) {
  int lane = threadIdx.x % WARP, d = lane % LANES * 8;
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    int at = first + u * ATT_WARPS * KEYS + lane / LANES;
    p.k[u] = p.v[u] = make_uint4(0, 0, 0, 0);
    if (at < end) {
      p.k[u] = *(const uint4 *)(ks + (u64)at * HEAD_DIM + d);
      p.v[u] = *(const uint4 *)(vs + (u64)at * HEAD_DIM + d);
    }
  }
}

// load_head gives a warp one head of the projections, with its bias.
__device__ __forceinline__ void load_head(float v[HEAD_LANE], const float *row, const bf16 *bias, int head) {
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) {
    int at = head * HEAD_DIM + threadIdx.x % WARP + WARP * i;
    v[i] = row[at];
#if QKV_BIAS
    v[i] += wide(bias[at]);
#endif
  }
}

// join puts the soft-maxes of the keys of one warp together.
__device__ __forceinline__ void join(Softmax &a) {
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
  }
}

// gather is what the last block of a head does: weigh the parts and sum them.
// Warp g finds the weights of head g, lane s that of part s.
__device__ __forceinline__ void gather(const float *parts, const float *peaks, bf16 *out, int splits, float (*weight)[WARP]) {
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  for (int g = warp; g < GROUP; g += ATT_WARPS) {
    float2 p = {-INFINITY, 0.f};
    if (lane < splits) p = __ldcg((const float2 *)peaks + lane * GROUP + g);
    float m = p.x;
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
    float f = p.x == -INFINITY ? 0.f : exp2f(p.x - m);
    weight[g][lane] = f / warp_sum(f * p.y);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < GROUP * HEAD_DIM; i += ATT_WARPS * WARP) {
    float o = 0.f;
#pragma unroll 8
    for (int s = 0; s < splits; s++) o += weight[i / HEAD_DIM][s] * __ldcg(parts + s * GROUP * HEAD_DIM + i);
    out[i] = narrow(o);
  }
}

extern "C" __global__ void __launch_bounds__(ATT_WARPS * WARP, GROUP <= 4 ? 2 : 1)
    attention_decode(const float *qkv, const bf16 *bias, const bf16 *q_norm, const bf16 *k_norm, const float *frequencies, bf16 *k_cache,
                     bf16 *v_cache, const int *positions, float *parts, float *peaks, u32 *arrived, bf16 *out, int capacity, float eps, float scale) {
  __shared__ float q[GROUP][HEAD_DIM];
  __shared__ __align__(16) bf16 fresh[2][HEAD_DIM]; // the new key and value
  __shared__ float merged[ATT_WARPS][GROUP][HEAD_DIM];
  __shared__ float stats[ATT_WARPS][GROUP][2];
  __shared__ float weight[GROUP][WARP];
  __shared__ bool last;
  int split = blockIdx.x, splits = gridDim.x, head = blockIdx.y, kv_heads = gridDim.y, seq = blockIdx.z;
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, d = lane % LANES * 8;
  let_next_start();

  int past = positions[seq], have = past, slot = past;
#if SLIDING // the cache is a ring: the new token takes the place of the one that leaves the window
  have = min(past, capacity), slot = past % capacity;
#endif
  int chunk = (have + splits) / splits;
  chunk = (chunk + 15) / 16 * 16;
  int begin = split * chunk, end = min(have, begin + chunk);
  bool owner = begin <= have && have < begin + chunk;
  u64 cache = ((u64)seq * kv_heads + head) * capacity * HEAD_DIM;
  int first = begin + warp * KEYS;
  const int step = ATT_WARPS * KEYS * UNROLL;
  Pieces p, ahead;
  load_pieces(p, k_cache + cache, v_cache + cache, first, end);
  load_pieces(ahead, k_cache + cache, v_cache + cache, first + step, end);
  Angles turn = angles(frequencies, past);
  after_previous();

  const float *row = qkv + (u64)seq * (GROUP + 2) * kv_heads * HEAD_DIM;
  for (int job = warp; job < GROUP + 2 * owner; job += ATT_WARPS) { // queries, the new key, the new value
    float v[HEAD_LANE];
    load_head(v, row, bias, job < GROUP ? head * GROUP + job : job * kv_heads + head);
    if (job <= GROUP) prepare_head(v, job < GROUP ? q_norm : k_norm, eps, turn);
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) {
      int at = lane + WARP * i;
      if (job < GROUP) {
        q[job][at] = v[i] * scale * LOG2E;
      } else {
        (job == GROUP ? k_cache : v_cache)[cache + (u64)slot * HEAD_DIM + at] = fresh[job - GROUP][at] = narrow(v[i]);
      }
    }
  }
  __syncthreads();

  float mine[GROUP][8];
  Softmax a;
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    a.peak[g] = -INFINITY, a.sum[g] = 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) a.o[g][i] = 0.f, mine[g][i] = q[g][d + i];
  }
  for (; first < end; first += step) {
    float s[UNROLL][GROUP];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      int at = first + u * ATT_WARPS * KEYS + lane / LANES;
      score(s[u], mine, p.k[u], at < end && (!SLIDING || at != slot));
    }
    mix<UNROLL>(a, s, p.v);
    p = ahead;
    load_pieces(ahead, k_cache + cache, v_cache + cache, first + 2 * step, end);
  }
  if (owner && warp == 0) {
    float s[1][GROUP];
    uint4 v[1] = {*(const uint4 *)(fresh[1] + d)};
    score(s[0], mine, *(const uint4 *)(fresh[0] + d), lane / LANES == 0);
    mix<1>(a, s, v);
  }

  join(a);
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    if (lane < LANES) {
#pragma unroll
      for (int i = 0; i < 8; i++) merged[warp][g][d + i] = a.o[g][i];
    }
    if (lane == 0) stats[warp][g][0] = a.peak[g], stats[warp][g][1] = a.sum[g];
  }
  __syncthreads();
  u64 parts_before = ((u64)seq * kv_heads + head) * splits;
  parts += parts_before * GROUP * HEAD_DIM, peaks += parts_before * GROUP * 2;
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
    __stcg(parts + split * GROUP * HEAD_DIM + i, o);
    if (i % HEAD_DIM == 0) __stcg((float2 *)peaks + split * GROUP + g, make_float2(m, l));
  }
  __threadfence();
  __syncthreads();
  u32 *count = arrived + seq * kv_heads + head;
  if (threadIdx.x == 0) last = atomicAdd(count, 1) == splits - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (threadIdx.x == 0) *count = 0;
  gather(parts, peaks, out + ((u64)seq * kv_heads + head) * GROUP * HEAD_DIM, splits, weight);
}
