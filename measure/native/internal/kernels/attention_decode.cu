// Decode attention, by tensor cores: attention of one new token a sequence over all keys and values
// before it. Block (s, h, b) takes part s of the context of key head h of sequence b, for all GROUP
// query heads that share it (Flash-Decoding). The context's length is read from the device, so one
// recorded launch serves every step.
//
//   - The context is tiles of 16 keys, which the warps of all parts take alternately. So the place of
//     a warp's first tiles does not depend on the context, and their copies begin before its length is
//     known.
//   - A warp works by itself, with its own ring in shared memory and its own softmax; warps merge
//     their results at the end. In an mma of the scores the queries are the 16 rows: eight rows have
//     their bf16 values, eight the rounding errors; keys are the 8 columns. In an mma of the output
//     values are the rows and the weights the columns, in the lanes that have the scores. Copies of
//     keys run ahead of those of values, which are needed later.
//   - The warp whose tile has the new token's place applies bias, norm and RoPE to its key and value
//     and writes them to the cache. Every warp prepares the queries, which are few.
//   - The parts of a head are one cluster if the launch says so. Then each block sends every other its
//     share of the sums through distributed shared memory. Otherwise the last block to finish merges
//     the parts.
//   - The next kernel may start at once (PDL). If a cluster has the head of a single sequence, which
//     reads little, the next kernel may start after the context has been read, so that its loads
//     overlap with the merging of the sums.
//
//   qkv[batch][(heads+2*kv_heads)*HEAD_DIM], positions[batch] = tokens in the cache
//   k_cache, v_cache[batch][kv_heads][capacity][HEAD_DIM]
//   parts[batch][kv_heads][splits][GROUP][HEAD_DIM], peaks[batch][kv_heads][splits][GROUP][2]
//   capacity is that of the layer; a layer with a window has no more than the window
//   arrived[batch][kv_heads], zero before and after; out[batch][heads*HEAD_DIM]
//
// In shared memory a row of a tile is 16-byte pieces, and piece c of row r lies at c^(r%8), as in
// attention_prefill.cu. A warp copies 512 contiguous bytes of the cache; copies of 64 bytes of each of
// eight rows, in the order of multiplication, took up to 1.8 times as long.

#define DEC_WARPS 4
#define DEC_KEY_STAGES (256 / HEAD_DIM)
#define DEC_VALUE_STAGES (HEAD_DIM == 64 ? 2 : 1)
#define DEC_THREADS (DEC_WARPS * WARP)
#define DEC_ROWS (256 / HEAD_DIM) // rows that a warp copies at a time
#define DEC_PIECES (HEAD_DIM / 8) // pieces of a row
#define DEC_TILE (16 * HEAD_DIM * 2)
#define DEC_RING ((DEC_KEY_STAGES + DEC_VALUE_STAGES) * DEC_TILE) // bytes of a warp's ring
#define DEC_PITCH (HEAD_DIM + 8)   // floats of a query's sums
#define DEC_CLUSTER 16 // the most blocks of a cluster
#define DEC_VALUES (GROUP * HEAD_DIM)
#define DEC_PARTS 32 // the most parts without a cluster

static_assert(DEC_KEY_STAGES >= DEC_VALUE_STAGES, "keys are ahead of values");
static_assert(GROUP * DEC_PITCH * 4 <= DEC_RING, "a warp leaves its sums in its ring");

// PartialAttention is a warp's result for its keys: maximum and sum of query g, the sum of the lane's
// keys alone, and the output of queries 2t and 2t+1.
struct PartialAttention {
  float peak, sum, o[HEAD_DIM / 16][4];
};

// Queries are values 2t and 2t+1 of each piece of query g.
struct Queries {
  u32 top[DEC_PIECES], rest[DEC_PIECES];
};

// Constants are bias and norm weights of the queries, which are loaded ahead of them.
struct Constants {
#if QKV_BIAS
  u32 bias[DEC_PIECES];
#endif
#if QK_NORM
  u32 norm[DEC_PIECES];
#endif
};

// A HeadShared is what the warps of a block share that attends to part of a head's context.
struct HeadShared {
  float sin[HEAD_DIM / 2], cos[HEAD_DIM / 2];
  bf16 fresh[2][HEAD_DIM]; // the new key and value
  float2 stats[DEC_WARPS][GROUP];
};

struct DecodeShared : HeadShared {
  float inbox[DEC_VALUES]; // each block's share for this block of a cluster
  float2 peaks[DEC_CLUSTER][GROUP];
  u64 received; // This barrier says that all of inbox and peaks has arrived.
  float weight[GROUP][DEC_PARTS];
  bool last;
};

__device__ __forceinline__ void load_constants(Constants &c, const bf16 *bias, const bf16 *norm, int head) {
#pragma unroll
  for (int p = 0; p < DEC_PIECES; p++) {
#if QKV_BIAS
    c.bias[p] = *(const u32 *)(bias + (head * GROUP + min((int)threadIdx.x % WARP / 4, GROUP - 1)) * HEAD_DIM + 8 * p + threadIdx.x % 4 * 2);
#endif
#if QK_NORM
    c.norm[p] = *(const u32 *)(norm + 8 * p + threadIdx.x % 4 * 2);
#endif
  }
}

__device__ __forceinline__ void load_queries(float2 raw[DEC_PIECES], const float *row) {
  int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int p = 0; p < DEC_PIECES; p++) {
    raw[p] = make_float2(0.f, 0.f);
    if (g < GROUP) raw[p] = __ldcg((const float2 *)(row + g * HEAD_DIM + 8 * p + 2 * t));
  }
}

// prepare_queries applies bias, norm and RoPE to the queries, as prepare_head does to a head, and
// multiplies them by scale.
__device__ __forceinline__ void prepare_queries(Queries &q, float2 raw[DEC_PIECES], const Constants &c, const HeadShared &sh, float eps, float scale) {
  int t = threadIdx.x % 4;
#if QKV_BIAS
#pragma unroll
  for (int p = 0; p < DEC_PIECES; p++) raw[p].x += low(c.bias[p]), raw[p].y += high(c.bias[p]);
#endif
#if QK_NORM
  float ss = 0.f;
#pragma unroll
  for (int p = 0; p < DEC_PIECES; p++) ss += raw[p].x * raw[p].x + raw[p].y * raw[p].y;
  ss += __shfl_xor_sync(FULL, ss, 1);
  ss += __shfl_xor_sync(FULL, ss, 2);
  float r = rsqrtf(ss / HEAD_DIM + eps);
#pragma unroll
  for (int p = 0; p < DEC_PIECES; p++) raw[p].x *= r * gain(low(c.norm[p])), raw[p].y *= r * gain(high(c.norm[p]));
#endif
#pragma unroll
  for (int p = 0; p < DEC_PIECES / 2; p++) {
    float2 s = *(const float2 *)(sh.sin + 8 * p + 2 * t), c = *(const float2 *)(sh.cos + 8 * p + 2 * t);
    float2 x = raw[p], y = raw[p + DEC_PIECES / 2];
    raw[p] = make_float2((x.x * c.x - y.x * s.x) * scale, (x.y * c.y - y.y * s.y) * scale);
    raw[p + DEC_PIECES / 2] = make_float2((y.x * c.x + x.x * s.x) * scale, (y.y * c.y + x.y * s.y) * scale);
  }
#pragma unroll
  for (int p = 0; p < DEC_PIECES; p++) {
    u32 w = pack(raw[p].x, raw[p].y);
    q.top[p] = w, q.rest[p] = pack(raw[p].x - low(w), raw[p].y - high(w));
  }
}

// keep stores the new key and value for the warp, and writes them to the cache.
__device__ __forceinline__ void keep(HeadShared &sh, float k[HEAD_LANE], const float v[HEAD_LANE], const bf16 *k_norm, float eps, bf16 *k_cache,
                                     bf16 *v_cache, u64 place) {
  int lane = threadIdx.x % WARP;
  Angles turn;
#pragma unroll
  for (int i = 0; i < HEAD_LANE / 2; i++) turn.sin[i] = sh.sin[lane + WARP * i], turn.cos[i] = sh.cos[lane + WARP * i];
  prepare_head(k, k_norm, eps, turn);
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) {
    int at = lane + WARP * i;
    k_cache[place + at] = sh.fresh[0][at] = to_16bit(k[i]);
    v_cache[place + at] = sh.fresh[1][at] = to_16bit(v[i]);
  }
  __syncwarp();
}

// keep_new is keep for a head of a row of queries, keys and values.
__device__ __forceinline__ void keep_new(HeadShared &sh, const float *row, const bf16 *bias, const bf16 *k_norm, float eps, int head, int kv_heads,
                                         bf16 *k_cache, bf16 *v_cache, u64 place) {
  float k[HEAD_LANE], v[HEAD_LANE];
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) {
    int at = (GROUP * kv_heads + head) * HEAD_DIM + threadIdx.x % WARP + WARP * i, further = at + kv_heads * HEAD_DIM;
    k[i] = __ldcg(row + at), v[i] = __ldcg(row + further);
#if QKV_BIAS
    k[i] += to_float(bias[at]), v[i] += to_float(bias[further]);
#endif
  }
  keep(sh, k, v, k_norm, eps, k_cache, v_cache, place);
}

// A Ring is a warp's part of the shared memory: DEC_KEY_STAGES tiles of keys and DEC_VALUE_STAGES
// tiles of values.
struct Ring {
  u8 *at;
  const bf16 *k, *v; // row 0
  u32 base, mine; // the ring's address, and the lane's place in the first 512 bytes of a tile
  u32 corner;        // the lane's row of ldmatrix in a tile's first two pieces

  __device__ __forceinline__ Ring(u8 *ring, const bf16 *keys, const bf16 *values) {
    int lane = threadIdx.x % WARP, r = lane / 16 * 8 + lane % 8;
    at = ring, k = keys, v = values, base = shared_address(ring);
    mine = lane / DEC_PIECES * HEAD_DIM * 2 + ((lane % DEC_PIECES) ^ (lane / DEC_PIECES)) * 16;
    corner = r * HEAD_DIM * 2 + ((lane / 8 % 2) ^ (r % 8)) * 16;
  }

  // copy starts the copies of a tile's rows. For rows from limit on it reads another row. SHORT
  // computes the same with less code.
  template <bool SHORT>
  __device__ __forceinline__ void copy(int stage, const bf16 *from, int tile, int limit) const {
    int lane = threadIdx.x % WARP;
    u32 to = base + stage * DEC_TILE;
    if (!SHORT && tile * 16 + 16 <= limit) {
      from += (u64)(u32)tile * 16 * HEAD_DIM + lane * 8;
#pragma unroll
      for (int i = 0; i < 16 / DEC_ROWS; i++) copy16(to + (mine ^ i * DEC_ROWS % 8 * 16) + i * 512, from + i * 256);
      return;
    }
    from += lane % DEC_PIECES * 8;
    for (int i = 0; i < 16 / DEC_ROWS; i++)
      copy16(to + (mine ^ i * DEC_ROWS % 8 * 16) + i * 512, from + (u64)(u32)min(tile * 16 + i * DEC_ROWS + lane / DEC_PIECES, limit - 1) * HEAD_DIM);
  }
  template <bool SHORT>
  __device__ __forceinline__ void copy_keys(int stage, int tile, int limit) const { copy<SHORT>(stage, k, tile, limit); }
  template <bool SHORT>
  __device__ __forceinline__ void copy_values(int stage, int tile, int limit) const { copy<SHORT>(DEC_KEY_STAGES + stage, v, tile, limit); }

  // keys loads the operands of two mma for 16 keys, and values those of one mma for the values of 16
  // keys: pieces 2i and 2i+1.
  __device__ __forceinline__ void keys(u32 r[4], int stage, int i) const { ldmatrix(r, base + stage * DEC_TILE + (corner ^ i * 32)); }
  __device__ __forceinline__ void values(u32 r[4], int stage, int i) const {
    ldmatrix_transposed(r, base + (DEC_KEY_STAGES + stage) * DEC_TILE + (corner ^ i * 32));
  }

  // patch writes the new token to its place, and zeros where there are no values.
  __device__ __forceinline__ void patch(const HeadShared &sh, int stage, int value_stage, int tile, int slot, int count) const {
    for (int i = threadIdx.x % WARP; i < 16 * DEC_PIECES; i += WARP) {
      int r = i / DEC_PIECES, p = i % DEC_PIECES, row = tile * 16 + r, there = r * HEAD_DIM * 2 + (p ^ r % 8) * 16;
      if (row == slot) *(uint4 *)(at + stage * DEC_TILE + there) = *(const uint4 *)(sh.fresh[0] + p * 8);
      if (row == slot || row >= count)
        *(uint4 *)(at + (DEC_KEY_STAGES + value_stage) * DEC_TILE + there) = row == slot ? *(const uint4 *)(sh.fresh[1] + p * 8) : make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
  }
};

// weigh turns the scores of a tile's keys into softmax weights, and updates maximum and sum: those of
// query g and keys 2t, 2t+1, 2t+8 and 2t+9.
__device__ __forceinline__ void weigh(PartialAttention &a, u32 p[2], const Queries &q, const Ring &ring, int stage, int tile, int count) {
  int t = threadIdx.x % 4;
  float s[2][2][4] = {};
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 16; i++) {
    u32 k[4];
    ring.keys(k, stage, i);
    mma(s[0][i & 1], q.top[2 * i], q.rest[2 * i], q.top[2 * i + 1], q.rest[2 * i + 1], k[0], k[1]);
    mma(s[1][i & 1], q.top[2 * i], q.rest[2 * i], q.top[2 * i + 1], q.rest[2 * i + 1], k[2], k[3]);
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

// accumulate_values adds a tile's values with the weights p.
__device__ __forceinline__ void accumulate_values(PartialAttention &a, const u32 p[2], const Ring &ring, int stage) {
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 16; i++) {
    u32 v[4];
    ring.values(v, stage, i);
    mma(a.o[i], v[0], v[1], v[2], v[3], p[0], p[1]);
  }
}

// begin_tiles starts the copies of the first tiles of a warp, every step-th from `first` on, as many
// as the ring has room for; limit is the number of keys, and VALUES the tiles of values.
template <bool SHORT = false, int VALUES = DEC_VALUE_STAGES>
__device__ __forceinline__ void begin_tiles(const Ring &ring, int first, int step, int limit) {
#pragma unroll
  for (int i = 0; i < DEC_KEY_STAGES; i++) {
    int tile = first + i * step, behind = i - DEC_KEY_STAGES + VALUES;
    if (tile * 16 < limit) ring.copy_keys<SHORT>(i, tile, limit);
    commit();
    if (behind < 0) continue;
    tile = first + behind * step;
    if (tile * 16 < limit) ring.copy_values<SHORT>(behind, tile, limit);
    commit();
  }
}

// attend_tiles attends to the warp's tiles of count keys, of which the new one is at slot.
template <bool SHORT = false, int VALUES = DEC_VALUE_STAGES>
__device__ __forceinline__ void attend_tiles(PartialAttention &a, const Queries &q, const Ring &ring, const HeadShared &sh, int first, int step, int slot, int count) {
  for (int tile = first, k = 0, v = 0; tile * 16 < count; tile += step) {
    int next_k = tile + DEC_KEY_STAGES * step, next_v = tile + VALUES * step;
    u32 p[2];
    wait_copies<DEC_KEY_STAGES + VALUES - 1>(); // Later keys and these values may be in flight.
    __syncwarp();
    if (tile == slot / 16 || tile * 16 + 16 > count) {
      wait_copies<2 * VALUES - 2>();
      __syncwarp();
      ring.patch(sh, k, v, tile, slot, count);
    }
    weigh(a, p, q, ring, k, tile, count);
    __syncwarp();
    if (next_k * 16 < count) ring.copy_keys<SHORT>(k, next_k, count);
    commit();
    wait_copies<2 * VALUES - 1>();
    __syncwarp();
    accumulate_values(a, p, ring, v);
    __syncwarp();
    if (next_v * 16 < count) ring.copy_values<SHORT>(v, next_v, count);
    commit();
    if (++k == DEC_KEY_STAGES) k = 0;
    if (++v == VALUES) v = 0;
  }
}

// store_partial writes the warp's result to its ring, [GROUP][DEC_PITCH], and to stats.
__device__ __forceinline__ void store_partial(PartialAttention &a, float *to, float2 *stats) {
  int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  a.sum += __shfl_xor_sync(FULL, a.sum, 1);
  a.sum += __shfl_xor_sync(FULL, a.sum, 2);
  if (t == 0 && g < GROUP) stats[g] = make_float2(a.peak, a.sum);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (2 * t + i >= GROUP) continue;
    float *at = to + (2 * t + i) * DEC_PITCH + g;
#pragma unroll
    for (int p = 0; p < HEAD_DIM / 16; p++) at[16 * p] = a.o[p][i], at[16 * p + 8] = a.o[p][i + 2];
  }
}

__device__ __forceinline__ float weight_of(float peak, float most) { return peak == -INFINITY ? 0.f : exp2f(peak - most); }

// joined is values i to i+3 of a block, with their query's maximum and sum.
__device__ __forceinline__ float4 joined(const HeadShared &sh, const u8 *rings, int i, float2 &stat) {
  int g = i / HEAD_DIM;
  float m = -INFINITY, l = 0.f;
  float4 o = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
  for (int w = 0; w < DEC_WARPS; w++) m = fmaxf(m, sh.stats[w][g].x);
#pragma unroll
  for (int w = 0; w < DEC_WARPS; w++) {
    float2 s = sh.stats[w][g];
    float f = weight_of(s.x, m);
    float4 v = *(const float4 *)(rings + w * DEC_RING + (g * DEC_PITCH + i % HEAD_DIM) * 4);
    o.x += f * v.x, o.y += f * v.y, o.z += f * v.z, o.w += f * v.w, l += f * s.y;
  }
  stat = make_float2(m, l);
  return o;
}

// Each block of a cluster sends the others their shares, and makes its share of the output of what it
// receives.
__device__ __forceinline__ void join_cluster(DecodeShared &sh, const u8 *rings, bf16 *out, int blocks) {
  int share = DEC_VALUES / blocks, me = blockIdx.x;
  cluster_wait(); // All blocks have begun.
  for (int i = threadIdx.x * 4; i < DEC_VALUES; i += DEC_THREADS * 4) {
    float2 stat;
    float4 o = joined(sh, rings, i, stat);
    send((float4 *)(sh.inbox + me * share + i % share), &sh.received, i / share, o);
    if (i % HEAD_DIM == 0)
      for (int to = 0; to < blocks; to++) send(&sh.peaks[me][i / HEAD_DIM], &sh.received, to, stat);
  }
  barrier_wait(&sh.received, 0);
  for (int i = threadIdx.x; i < share; i += DEC_THREADS) {
    int g = (me * share + i) / HEAD_DIM;
    float m = -INFINITY, o = 0.f, l = 0.f;
    for (int s = 0; s < blocks; s++) m = fmaxf(m, sh.peaks[s][g].x);
    for (int s = 0; s < blocks; s++) {
      float f = weight_of(sh.peaks[s][g].x, m);
      o += f * sh.inbox[s * share + i], l += f * sh.peaks[s][g].y;
    }
    out[me * share + i] = to_16bit(o / l);
  }
}

// join_parts stores a block's sums for the last block of the head, which merges them: warp g computes
// the weights of head g, and lane s that of part s.
__device__ __forceinline__ void join_parts(DecodeShared &sh, const u8 *rings, float *parts, float *peaks, u32 *arrived, bf16 *out) {
  int split = blockIdx.x, splits = gridDim.x, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  for (int i = threadIdx.x * 4; i < DEC_VALUES; i += DEC_THREADS * 4) {
    float2 stat;
    float4 o = joined(sh, rings, i, stat);
    __stcg((float4 *)(parts + split * DEC_VALUES + i), o);
    if (i % HEAD_DIM == 0) __stcg((float2 *)peaks + split * GROUP + i / HEAD_DIM, stat);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) sh.last = atomicAdd(arrived, 1) == splits - 1;
  __syncthreads();
  if (!sh.last) return;
  __threadfence();
  if (threadIdx.x == 0) *arrived = 0;
  for (int g = warp; g < GROUP; g += DEC_WARPS) {
    float2 p = {-INFINITY, 0.f};
    if (lane < splits) p = __ldcg((const float2 *)peaks + lane * GROUP + g);
    float m = p.x;
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
    float f = weight_of(p.x, m);
    sh.weight[g][lane] = f / warp_sum(f * p.y);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < DEC_VALUES; i += DEC_THREADS) {
    float o = 0.f;
#pragma unroll 8
    for (int s = 0; s < splits; s++) o += sh.weight[i / HEAD_DIM][s] * __ldcg(parts + s * DEC_VALUES + i);
    out[i] = to_16bit(o);
  }
}

// join_warps merges the warps of a block that has a whole head.
__device__ __forceinline__ void join_warps(DecodeShared &sh, const u8 *rings, bf16 *out) {
  for (int i = threadIdx.x * 4; i < DEC_VALUES; i += DEC_THREADS * 4) {
    float2 stat;
    float4 o = joined(sh, rings, i, stat);
    float r = 1.f / stat.y;
    *(uint2 *)(out + i) = make_uint2(pack(o.x * r, o.y * r), pack(o.z * r, o.w * r));
  }
}

extern "C" __global__ void __launch_bounds__(DEC_THREADS, HEAD_DIM <= 128 ? 4 : 2)
    attention_decode(const float *qkv, const bf16 *bias, const bf16 *q_norm, const bf16 *k_norm, const float *frequencies, bf16 *k_cache,
                     bf16 *v_cache, const int *positions, float *parts, float *peaks, u32 *arrived, bf16 *out, int capacity, float eps, float scale) {
  DYNAMIC_SHARED(rings);
  __shared__ __align__(16) DecodeShared sh;
  int splits = gridDim.x, head = blockIdx.y, kv_heads = gridDim.y, seq = blockIdx.z;
  int warp = threadIdx.x / WARP;
  int first = blockIdx.x * DEC_WARPS + warp, step = splits * DEC_WARPS;
  u32 blocks = cluster_blocks();
  if (blocks > 1) {
    if (threadIdx.x == 0) barrier_init(&sh.received, 1);
#ifdef SANITIZED
    __syncthreads(); // racecheck of CUDA 13.0 warns of the next access of the same thread.
#endif
    if (threadIdx.x == 0) barrier_expect(&sh.received, DEC_VALUES * 4 + blocks * GROUP * 8);
    cluster_begin();
  }
  bool late = gridDim.z == 1 && blocks > 1;
  if (!late) let_next_start();

  u64 cache = ((u64)seq * kv_heads + head) * capacity * HEAD_DIM;
  u8 *mine = rings + warp * DEC_RING;
  Ring ring(mine, k_cache + cache, v_cache + cache);
  begin_tiles(ring, first, step, capacity);
  int past = positions[seq], slot = past, count = past + 1;
#if SLIDING // The cache is a ring buffer: the new token replaces the one that leaves the window.
  count = min(count, capacity), slot = past % capacity;
#endif
  for (int i = threadIdx.x; i < HEAD_DIM / 2; i += DEC_THREADS) sincosf((float)past * frequencies[i], &sh.sin[i], &sh.cos[i]);
  Constants c;
  load_constants(c, bias, q_norm, head);
  __syncthreads();
  wait_for_previous();

  const float *row = qkv + (u64)seq * (GROUP + 2) * kv_heads * HEAD_DIM;
  float2 raw[DEC_PIECES];
  load_queries(raw, row + head * DEC_VALUES);
  if (slot / 16 % step == first) keep_new(sh, row, bias, k_norm, eps, head, kv_heads, k_cache, v_cache, cache + (u64)slot * HEAD_DIM);
  Queries q;
  prepare_queries(q, raw, c, sh, eps, scale * LOG2E);

  PartialAttention a = {-INFINITY, 0.f, {}};
  attend_tiles(a, q, ring, sh, first, step, slot, count);

  if (late) let_next_start();
  wait_copies<0>(); // These are copies of tiles beyond the context.
  __syncwarp();
  store_partial(a, (float *)mine, sh.stats[warp]);
  __syncthreads();
  u64 at = (u64)seq * kv_heads + head;
  out += at * DEC_VALUES;
  if (splits == 1) {
    join_warps(sh, rings, out);
  } else if (blocks > 1) {
    join_cluster(sh, rings, out, blocks);
  } else {
    join_parts(sh, rings, parts + at * splits * DEC_VALUES, peaks + at * splits * GROUP * 2, arrived + at, out);
  }
}
