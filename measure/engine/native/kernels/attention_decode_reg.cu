// Attention of one new token a sequence over the keys and values of all before
// it, on tensor cores: a block takes one of `splits` parts of the context of a key head
// of a sequence, for all GROUP query heads that share it (Flash-Decoding). Parts of a
// head follow each other, then come heads, then sequences; blocks beyond them hold
// their place until the kernel ahead has ended, so that the next kernel's blocks find
// all multiprocessors alike. The context's length is read from the device, so one
// recorded launch serves every step.
//
//   - The context is tiles of 16 keys. They are dealt to the warps of all parts in
//     turn, so that where a warp's first tiles lie does not depend on the context,
//     and their copies begin before its length is known.
//   - A warp works by itself: each lane copies the 16-byte pieces that it will
//     multiply into a ring of its own in shared memory, and waits for its own
//     copies alone. In an mma of the scores the queries are the 16 rows, in bf16 the
//     first eight and what that rounding lost the other eight, and keys the 8
//     columns; in one of the output values are the rows and the weights the
//     columns, which lie in the lanes that the scores are in.
//   - The warp whose tile has the new token's place does what comes before
//     attention for its key and value: bias, norm, rotation, and the write to the
//     cache. Every warp does it for the queries, which are few.
//   - The parts of a head are one cluster where the launch says so: each block
//     sends every other its share of the sums, through the shared memory of the
//     cluster. Else the last block to finish adds them up.
//
//   qkv[batch][(heads+2*kv_heads)*HEAD_DIM], positions[batch] = tokens in the cache
//   k_cache, v_cache[batch][kv_heads][capacity][HEAD_DIM]
//   parts[batch][kv_heads][splits][GROUP][HEAD_DIM], peaks[batch][kv_heads][splits][GROUP][2]
//   capacity is that of the layer: of a layer with a window, no more than the window
//   arrived[batch][kv_heads], zero before and after; out[batch][heads*HEAD_DIM]
//
// Lane 4g+t holds of a tile: of keys g and g+8, values 8t to 8t+7 of each 32; of
// the values of keys 2t, 2t+1, 2t+8 and 2t+9, 8g to 8g+7 of each 64.

#ifndef REG_WARPS
#define REG_WARPS 4
#endif
#define REG_THREADS (REG_WARPS * WARP)
#define REG_PIECES (HEAD_DIM / 16) // of a tile's keys that a lane holds, and of its values
#define REG_BLOCKS (HEAD_DIM / 32) // of 32 values
#define REG_RING (REG_VALUES * 4) // bytes of a warp
#define REG_CLUSTER 16             // blocks at most
#define REG_VALUES (GROUP * HEAD_DIM)
#define REG_PARTS 32               // at most, without a cluster


// Mixed_reg is what a warp has of its keys: peak and sum of query g, the sum of the
// lane's own keys alone, and the output of queries 2t and 2t+1.
struct Mixed_reg {
  float peak, sum, o[HEAD_DIM / 16][4];
};

struct Queries_reg {
  u32 top[REG_BLOCKS][4], rest[REG_BLOCKS][4];
};

// Constants_reg are what is done to the queries, loaded ahead of them.
struct Constants_reg {
#if QKV_BIAS
  uint4 bias[REG_BLOCKS];
#endif
#if QK_NORM
  uint4 norm[REG_BLOCKS];
#endif
};

struct DecodeShared_reg {
  float sin[HEAD_DIM / 2], cos[HEAD_DIM / 2];
  bf16 fresh[2][HEAD_DIM]; // the new key and value
  float2 stats[REG_WARPS][GROUP];
  float inbox[REG_VALUES]; // of a cluster: each block's share for this one
  float2 peaks[REG_CLUSTER][GROUP];
  u64 received; // a barrier: all of the inbox and peaks
  float weight[GROUP][REG_PARTS];
  bool last;
};

__device__ __forceinline__ void load_constants_reg(Constants_reg &c, const bf16 *bias, const bf16 *norm, int head) {
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++) {
#if QKV_BIAS
    c.bias[b] = *(const uint4 *)(bias + (head * GROUP + min((int)threadIdx.x % WARP / 4, GROUP - 1)) * HEAD_DIM + 32 * b + threadIdx.x % 4 * 8);
#endif
#if QK_NORM
    c.norm[b] = *(const uint4 *)(norm + 32 * b + threadIdx.x % 4 * 8);
#endif
  }
}

// Raw_reg is a lane's values of query g.
struct Raw_reg {
  float v[REG_BLOCKS][8];
};

__device__ __forceinline__ void load_queries_reg(Raw_reg &raw, const float *row) {
  int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++) {
    float4 x = {0.f, 0.f, 0.f, 0.f}, y = x;
    if (g < GROUP) {
      const float4 *from = (const float4 *)(row + g * HEAD_DIM + 32 * b + 8 * t);
      x = __ldcg(from), y = __ldcg(from + 1);
    }
    float *v = raw.v[b];
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w, v[4] = y.x, v[5] = y.y, v[6] = y.z, v[7] = y.w;
  }
}

// prepare_queries_reg does to the queries what prepare_head does to a head, and
// multiplies them by scale.
__device__ __forceinline__ void prepare_queries_reg(Queries_reg &q, Raw_reg &raw, const Constants_reg &c, const DecodeShared_reg &sh, float eps, float scale) {
  int t = threadIdx.x % 4;
#if QKV_BIAS
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++) {
    const u32 *w = &c.bias[b].x;
#pragma unroll
    for (int i = 0; i < 4; i++) raw.v[b][2 * i] += low(w[i]), raw.v[b][2 * i + 1] += high(w[i]);
  }
#endif
#if QK_NORM
  float ss = 0.f;
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++)
#pragma unroll
    for (int i = 0; i < 8; i++) ss += raw.v[b][i] * raw.v[b][i];
  ss += __shfl_xor_sync(FULL, ss, 1);
  ss += __shfl_xor_sync(FULL, ss, 2);
  float r = rsqrtf(ss / HEAD_DIM + eps);
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++) {
    const u32 *w = &c.norm[b].x;
#pragma unroll
    for (int i = 0; i < 4; i++) raw.v[b][2 * i] *= r * gain(low(w[i])), raw.v[b][2 * i + 1] *= r * gain(high(w[i]));
  }
#endif
#pragma unroll
  for (int b = 0; b < REG_BLOCKS / 2; b++)
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float s = sh.sin[32 * b + 8 * t + i], c = sh.cos[32 * b + 8 * t + i];
      float x = raw.v[b][i], y = raw.v[b + REG_BLOCKS / 2][i];
      raw.v[b][i] = (x * c - y * s) * scale;
      raw.v[b + REG_BLOCKS / 2][i] = (y * c + x * s) * scale;
    }
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float x = raw.v[b][2 * i], y = raw.v[b][2 * i + 1];
      u32 w = pack(x, y);
      q.top[b][i] = w, q.rest[b][i] = pack(x - low(w), y - high(w));
    }
}

// keep_new_reg puts the new key and value where the warp finds them, and into the
// cache at place.
__device__ __forceinline__ void keep_new_reg(DecodeShared_reg &sh, const float *row, const bf16 *bias, const bf16 *k_norm, float eps, int head, int kv_heads,
                                         bf16 *k_cache, bf16 *v_cache, u64 place) {
  int lane = threadIdx.x % WARP;
  float k[HEAD_LANE], v[HEAD_LANE];
  Angles turn;
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) {
    int at = (GROUP * kv_heads + head) * HEAD_DIM + lane + WARP * i, further = at + kv_heads * HEAD_DIM;
    k[i] = __ldcg(row + at), v[i] = __ldcg(row + further);
#if QKV_BIAS
    k[i] += wide(bias[at]), v[i] += wide(bias[further]);
#endif
  }
#pragma unroll
  for (int i = 0; i < HEAD_LANE / 2; i++) turn.sin[i] = sh.sin[lane + WARP * i], turn.cos[i] = sh.cos[lane + WARP * i];
  prepare_head(k, k_norm, eps, turn);
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) {
    int at = lane + WARP * i;
    k_cache[place + at] = sh.fresh[0][at] = narrow(k[i]);
    v_cache[place + at] = sh.fresh[1][at] = narrow(v[i]);
  }
  __syncwarp();
}

// Keys and values of a tile that a lane holds.
struct Ring_reg {
  uint4 kf[2][REG_BLOCKS], vf[4][HEAD_DIM / 64];
  const bf16 *k, *v; // of the lane: row 0
  int row_k, row_v;  // of a tile, that the lane's first pieces are of

  // Rows from limit on are not read.
  __device__ __forceinline__ void copy_keys(int tile, int limit) {
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const bf16 *from = k + (u64)(u32)min(tile * 16 + row_k + 8 * j, limit - 1) * HEAD_DIM;
#pragma unroll
      for (int b = 0; b < REG_BLOCKS; b++) kf[j][b] = load_once(from + 32 * b);
    }
  }

  __device__ __forceinline__ void copy_values(int tile, int limit) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const bf16 *from = v + (u64)(u32)min(tile * 16 + row_v + r % 2 + r / 2 * 8, limit - 1) * HEAD_DIM;
#pragma unroll
      for (int b = 0; b < HEAD_DIM / 64; b++) vf[r][b] = load_once(from + 64 * b);
    }
  }

  // patch puts the new token in its place, and zeros where there are no values.
  __device__ __forceinline__ void patch(const DecodeShared_reg &sh, int tile, int slot, int count) {
    int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int b = 0; b < REG_BLOCKS; b++)
        if (tile * 16 + row_k + 8 * j == slot) kf[j][b] = *(const uint4 *)(sh.fresh[0] + 32 * b + 8 * t);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      int at = tile * 16 + row_v + r % 2 + r / 2 * 8;
#pragma unroll
      for (int b = 0; b < HEAD_DIM / 64; b++) {
        if (at >= count) vf[r][b] = make_uint4(0, 0, 0, 0);
        if (at == slot) vf[r][b] = *(const uint4 *)(sh.fresh[1] + 64 * b + 8 * g);
      }
    }
  }
};

// weigh_reg makes the scores of a tile's keys weights, and takes them into peak and
// sum: those of query g and keys 2t, 2t+1 and 2t+8, 2t+9.
__device__ __forceinline__ void weigh_reg(Mixed_reg &a, u32 p[2], const Queries_reg &q, const Ring_reg &ring, int tile, int count) {
  int t = threadIdx.x % 4;
  float s[2][2][4] = {};
#pragma unroll
  for (int b = 0; b < REG_BLOCKS; b++)
#pragma unroll
    for (int j = 0; j < 2; j++) {
      uint4 k = ring.kf[j][b];
      mma(s[j][b & 1], q.top[b][0], q.rest[b][0], q.top[b][1], q.rest[b][1], k.x, k.y);
      mma(s[j][b & 1], q.top[b][2], q.rest[b][2], q.top[b][3], q.rest[b][3], k.z, k.w);
    }
  float m = a.peak, v[2][2];
#pragma unroll
  for (int j = 0; j < 2; j++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      float x = (s[j][0][i] + s[j][1][i]) + (s[j][0][i + 2] + s[j][1][i + 2]);
#ifdef ATT_SOFTCAP
      x = bend(x, ATT_SOFTCAP * LOG2E);
#endif
      v[j][i] = tile * 16 + 8 * j + 2 * t + i < count ? x : -INFINITY;
      m = fmaxf(m, v[j][i]);
    }
  m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
  m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
  float old = exp2f(a.peak - m);
  a.peak = m, a.sum *= old;
#pragma unroll
  for (int j = 0; j < 2; j++) {
    p[j] = pack(exp2f(v[j][0] - m), exp2f(v[j][1] - m));
    a.sum += low(p[j]) + high(p[j]);
  }
  float x = __shfl_sync(FULL, old, 8 * t), y = __shfl_sync(FULL, old, 8 * t + 4);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 16; i++) a.o[i][0] *= x, a.o[i][1] *= y, a.o[i][2] *= x, a.o[i][3] *= y;
}

__device__ __forceinline__ u32 lows_reg(u32 a, u32 b) { return (a & 0xffff) | b << 16; }
__device__ __forceinline__ u32 highs_reg(u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); }

// mix_values_reg adds a tile's values with the weights p.
__device__ __forceinline__ void mix_values_reg(Mixed_reg &a, const u32 p[2], const Ring_reg &ring) {
#pragma unroll
  for (int b = 0; b < HEAD_DIM / 64; b++) {
    const uint4 v[4] = {ring.vf[0][b], ring.vf[1][b], ring.vf[2][b], ring.vf[3][b]};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      u32 w0 = (&v[0].x)[i], w1 = (&v[1].x)[i], w2 = (&v[2].x)[i], w3 = (&v[3].x)[i];
      mma(a.o[b * 4 + i], lows_reg(w0, w1), highs_reg(w0, w1), lows_reg(w2, w3), highs_reg(w2, w3), p[0], p[1]);
    }
  }
}

// leave_mixed_reg writes what the warp has to its ring, [GROUP][HEAD_DIM], and to stats.
__device__ __forceinline__ void leave_mixed_reg(Mixed_reg &a, float *to, float2 *stats) {
  int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  a.sum += __shfl_xor_sync(FULL, a.sum, 1);
  a.sum += __shfl_xor_sync(FULL, a.sum, 2);
  if (t == 0 && g < GROUP) stats[g] = make_float2(a.peak, a.sum);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (2 * t + i >= GROUP) continue;
#pragma unroll
    for (int b = 0; b < HEAD_DIM / 64; b++) {
      float4 *at = (float4 *)(to + (2 * t + i) * HEAD_DIM + 64 * b + 8 * g);
      at[0] = {a.o[4 * b][i], a.o[4 * b][i + 2], a.o[4 * b + 1][i], a.o[4 * b + 1][i + 2]};
      at[1] = {a.o[4 * b + 2][i], a.o[4 * b + 2][i + 2], a.o[4 * b + 3][i], a.o[4 * b + 3][i + 2]};
    }
  }
}

__device__ __forceinline__ float weight_of_reg(float peak, float most) { return peak == -INFINITY ? 0.f : exp2f(peak - most); }

// joined_reg is values i to i+3 of a block, with their query's peak and sum.
__device__ __forceinline__ float4 joined_reg(const DecodeShared_reg &sh, const u8 *rings, int i, float2 &stat) {
  int g = i / HEAD_DIM;
  float m = -INFINITY, l = 0.f;
  float4 o = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
  for (int w = 0; w < REG_WARPS; w++) m = fmaxf(m, sh.stats[w][g].x);
#pragma unroll
  for (int w = 0; w < REG_WARPS; w++) {
    float2 s = sh.stats[w][g];
    float f = weight_of_reg(s.x, m);
    float4 v = *(const float4 *)(rings + w * REG_RING + i * 4);
    o.x += f * v.x, o.y += f * v.y, o.z += f * v.z, o.w += f * v.w, l += f * s.y;
  }
  stat = make_float2(m, l);
  return o;
}

// Of the blocks of a cluster each sends the others their shares, and makes of those
// that it gets its share of the output.
__device__ __forceinline__ void join_cluster_reg(DecodeShared_reg &sh, const u8 *rings, bf16 *out, int blocks) {
  int share = REG_VALUES / blocks, me = blockIdx.x % blocks;
  cluster_wait(); // all have begun
  for (int i = threadIdx.x * 4; i < REG_VALUES; i += REG_THREADS * 4) {
    float2 stat;
    float4 o = joined_reg(sh, rings, i, stat);
    send((float4 *)(sh.inbox + me * share + i % share), &sh.received, i / share, o);
    if (i % HEAD_DIM == 0)
      for (int to = 0; to < blocks; to++) send(&sh.peaks[me][i / HEAD_DIM], &sh.received, to, stat);
  }
  barrier_wait(&sh.received, 0);
  for (int i = threadIdx.x; i < share; i += REG_THREADS) {
    int g = (me * share + i) / HEAD_DIM;
    float m = -INFINITY, o = 0.f, l = 0.f;
    for (int s = 0; s < blocks; s++) m = fmaxf(m, sh.peaks[s][g].x);
    for (int s = 0; s < blocks; s++) {
      float f = weight_of_reg(sh.peaks[s][g].x, m);
      o += f * sh.inbox[s * share + i], l += f * sh.peaks[s][g].y;
    }
    out[me * share + i] = narrow(o / l);
  }
}

// join_parts_reg leaves a block's sums where the last block of the head finds them,
// which weighs and adds them up: warp g finds the weights of head g, lane s that of
// part s.
__device__ __forceinline__ void join_parts_reg(DecodeShared_reg &sh, const u8 *rings, float *parts, float *peaks, u32 *arrived, bf16 *out, int splits) {
  int split = blockIdx.x % splits, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  for (int i = threadIdx.x * 4; i < REG_VALUES; i += REG_THREADS * 4) {
    float2 stat;
    float4 o = joined_reg(sh, rings, i, stat);
    __stcg((float4 *)(parts + split * REG_VALUES + i), o);
    if (i % HEAD_DIM == 0) __stcg((float2 *)peaks + split * GROUP + i / HEAD_DIM, stat);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) sh.last = atomicAdd(arrived, 1) == splits - 1;
  __syncthreads();
  if (!sh.last) return;
  __threadfence();
  if (threadIdx.x == 0) *arrived = 0;
  for (int g = warp; g < GROUP; g += REG_WARPS) {
    float2 p = {-INFINITY, 0.f};
    if (lane < splits) p = __ldcg((const float2 *)peaks + lane * GROUP + g);
    float m = p.x;
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
    float f = weight_of_reg(p.x, m);
    sh.weight[g][lane] = f / warp_sum(f * p.y);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < REG_VALUES; i += REG_THREADS) {
    float o = 0.f;
#pragma unroll 8
    for (int s = 0; s < splits; s++) o += sh.weight[i / HEAD_DIM][s] * __ldcg(parts + s * REG_VALUES + i);
    out[i] = narrow(o);
  }
}

// join_warps_reg is of a head that is one block's alone.
__device__ __forceinline__ void join_warps_reg(DecodeShared_reg &sh, const u8 *rings, bf16 *out) {
  for (int i = threadIdx.x * 4; i < REG_VALUES; i += REG_THREADS * 4) {
    float2 stat;
    float4 o = joined_reg(sh, rings, i, stat);
    float r = 1.f / stat.y;
    *(uint2 *)(out + i) = make_uint2(pack(o.x * r, o.y * r), pack(o.z * r, o.w * r));
  }
}

extern "C" __global__ void __launch_bounds__(REG_THREADS, HEAD_DIM <= 128 ? 12 / REG_WARPS : 8 / REG_WARPS)
    attention_decode_reg(const float *qkv, const bf16 *bias, const bf16 *q_norm, const bf16 *k_norm, const float *frequencies, bf16 *k_cache,
                         bf16 *v_cache, const int *positions, float *parts, float *peaks, u32 *arrived, bf16 *out, int capacity, float eps, float scale,
                         int splits, int kv_heads, int batch) {
  DYNAMIC_SHARED(rings);
  __shared__ __align__(16) DecodeShared_reg sh;
  int item = blockIdx.x / splits, head = item % kv_heads, seq = item / kv_heads;
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  int first = blockIdx.x % splits * REG_WARPS + warp, step = splits * REG_WARPS;
  if (seq >= batch) {
    let_next_start();
    wait_for_previous();
    return;
  }
  u32 blocks = cluster_blocks();
  if (blocks > 1) {
    if (threadIdx.x == 0) {
      barrier_init(&sh.received, 1);
      barrier_expect(&sh.received, REG_VALUES * 4 + blocks * GROUP * 8);
    }
    cluster_begin();
  }
  let_next_start();

  u64 cache = ((u64)seq * kv_heads + head) * capacity * HEAD_DIM;
  u8 *mine = rings + warp * REG_RING;
  Ring_reg ring;
  ring.k = k_cache + cache + 8 * t, ring.v = v_cache + cache + 8 * g, ring.row_k = g, ring.row_v = 2 * t;
  if (first * 16 < capacity) ring.copy_keys(first, capacity), ring.copy_values(first, capacity);
  int past = positions[seq], slot = past, count = past + 1;
#if SLIDING // the cache is a ring: the new token takes the place of the one that leaves the window
  count = min(count, capacity), slot = past % capacity;
#endif
  for (int i = threadIdx.x; i < HEAD_DIM / 2; i += REG_THREADS) sincosf((float)past * frequencies[i], &sh.sin[i], &sh.cos[i]);
  Constants_reg c;
  load_constants_reg(c, bias, q_norm, head);
  __syncthreads();
  wait_for_previous();

  const float *row = qkv + (u64)seq * (GROUP + 2) * kv_heads * HEAD_DIM;
  Raw_reg raw;
  load_queries_reg(raw, row + head * REG_VALUES);
  if (slot / 16 % step == first) keep_new_reg(sh, row, bias, k_norm, eps, head, kv_heads, k_cache, v_cache, cache + (u64)slot * HEAD_DIM);
  Queries_reg q;
  prepare_queries_reg(q, raw, c, sh, eps, scale * LOG2E);

  Mixed_reg a = {-INFINITY, 0.f, {}};
  for (int tile = first; tile * 16 < count; tile += step) {
    int next = tile + step;
    u32 p[2];
    if (tile == slot / 16 || tile * 16 + 16 > count) ring.patch(sh, tile, slot, count);
    weigh_reg(a, p, q, ring, tile, count);
    if (next * 16 < count) ring.copy_keys(next, count);
    mix_values_reg(a, p, ring);
    if (next * 16 < count) ring.copy_values(next, count);
  }

  leave_mixed_reg(a, (float *)mine, sh.stats[warp]);
  __syncthreads();
  u64 at = item;
  out += at * REG_VALUES;
  if (splits == 1) {
    join_warps_reg(sh, rings, out);
  } else if (blocks > 1) {
    join_cluster_reg(sh, rings, out, blocks);
  } else {
    join_parts_reg(sh, rings, parts + at * splits * REG_VALUES, peaks + at * splits * GROUP * 2, arrived + at, out, splits);
  }
}
