// Causal attention of whole prompts on Hopper: FlashAttention-2 on wgmma, with
// the scores of the next tile computed while the soft-max of this one is (the
// overlap within a warpgroup of FlashAttention-3, arXiv:2407.08608). A block of
// two warpgroups takes 128 queries of one head, 64 a warpgroup, and runs over the
// keys in tiles of 128. Arguments are those of attention_prefill.
//
// Shared memory holds rows of 64 values, 128 bytes, in blocks of 128 rows; 16-byte
// piece c of row r lies at c^(r%8): the 128-byte swizzle that wgmma's descriptors
// name (hopper.cuh).

// The host takes it where the model has no window in use and no soft cap.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && HEAD_DIM <= 128 && !SLIDING && !defined(ATT_SOFTCAP)

#define WIDE 128                         // queries, and keys, of a tile
#define BLOCK (WIDE * 128)               // bytes of a block of 64 values of each row
#define MATRIX (HEAD_DIM / 64 * BLOCK)   // bytes of a tile

// copy_wide starts copying 128 rows; rows from have on are zeros.
__device__ __forceinline__ void copy_wide(u32 base, const bf16 *from, u64 stride, int have) {
  for (int i = threadIdx.x; i < WIDE * PIECES; i += 256) {
    int r = i / PIECES, c = i % PIECES, bytes = r < have ? 16 : 0;
    u32 to = base + c / 8 * BLOCK + r * 128 + ((c % 8) ^ (r & 7)) * 16;
    copy16_or_zero(to, from + (r < have ? r : 0) * stride + c * 8, bytes);
  }
}

// scores begins s = q·kᵀ.
__device__ __forceinline__ void scores(float (&s)[64], u32 q, u32 k) {
  wgmma_begin();
#pragma unroll
  for (int d = 0; d < HEAD_DIM / 16; d++) {
    u32 at = d / 4 * BLOCK + d % 4 * 32;
    wgmma_scores(s, descriptor(q + at, 16), descriptor(k + at, 16), d > 0);
  }
  wgmma_commit();
}

// values begins o += a·v.
__device__ __forceinline__ void values(float (&o)[HEAD_DIM / 2], const u32 (&a)[WIDE / 16][4], u32 v) {
  wgmma_begin();
#pragma unroll
  for (int n = 0; n < WIDE / 16; n++) wgmma_values(o, a[n], descriptor(v + n * 16 * 128, BLOCK));
  wgmma_commit();
}

// hide takes out the scores of keys behind the query, in the tile on the diagonal.
__device__ __forceinline__ void hide(float s[64]) {
  int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (n * 8 + lane % 4 * 2 + (i & 1) > row + (i >> 1) * 8) s[4 * n + i] = -INFINITY;
}

// soften turns scores into weights; old is what earlier sums are to be scaled by.
__device__ __forceinline__ void soften(float s[64], float peak[2], float sum[2], float old[2], float scale) {
#pragma unroll
  for (int h = 0; h < 2; h++) { // rows g and g+8
    float m = peak[h];
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++) m = fmaxf(m, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
    float row = 0.f, shift = m * scale;
    old[h] = exp2f((peak[h] - m) * scale);
    peak[h] = m;
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
      for (int i = 0; i < 2; i++) row += s[4 * n + 2 * h + i] = exp2f(fmaf(s[4 * n + 2 * h + i], scale, -shift));
    sum[h] = sum[h] * old[h] + row;
  }
}

__device__ __forceinline__ void pack_weights(u32 a[WIDE / 16][4], const float s[64]) {
#pragma unroll
  for (int n = 0; n < WIDE / 16; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) a[n][i] = pack(s[8 * n + 2 * i], s[8 * n + 2 * i + 1]);
}

// arrived waits for the copies begun so far and shows them to the tensor cores.
__device__ __forceinline__ void arrived() {
  wait_copies<0>();
  show_copies();
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_prefill_hopper(const bf16 *qkv, const bf16 *k_cache, const bf16 *v_cache, bf16 *out, int kv_heads, int length, int capacity,
                             float scale) {
  DYNAMIC_SHARED(unaligned);
  u32 qs = (shared_address(unaligned) + 1023) / 1024 * 1024, ks = qs + MATRIX, vs = ks + 2 * MATRIX;
  int heads = kv_heads * GROUP, head = blockIdx.y, seq = blockIdx.z;
  int tile = gridDim.x - 1 - blockIdx.x; // the longest rows first
  int group = threadIdx.x / 128, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  u64 width = (u64)(heads + 2 * kv_heads) * HEAD_DIM;
  const bf16 *q = qkv + ((u64)seq * length + tile * WIDE) * width + head * HEAD_DIM;
  u64 cache = ((u64)seq * kv_heads + head / GROUP) * capacity * HEAD_DIM;
  const bf16 *k = k_cache + cache, *v = v_cache + cache;
  const u64 step = (u64)WIDE * HEAD_DIM;

  copy_wide(qs, q, width, length - tile * WIDE);
  copy_wide(ks, k, HEAD_DIM, length);
  commit();
  if (tile > 0) copy_wide(ks + MATRIX, k + step, HEAD_DIM, length - WIDE);
  copy_wide(vs, v, HEAD_DIM, length);
  commit();

  float s[64], o[HEAD_DIM / 2] = {}, peak[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, old[2];
  u32 a[WIDE / 16][4];
  scale *= LOG2E;
  wait_copies<1>();
  show_copies();
  __syncthreads();
  u32 mine = qs + group * 64 * 128;
  scores(s, mine, ks);
  wgmma_wait<0>();
  settle(s);
  if (tile == 0) hide(s);
  soften(s, peak, sum, old, scale);
  pack_weights(a, s);
  for (int j = 0; j < tile; j++) {
    arrived(); // keys j+1 and values j; keys j and values j-1 are done with
    if (j + 2 <= tile) copy_wide(ks + j % 2 * MATRIX, k + (j + 2) * step, HEAD_DIM, length - (j + 2) * WIDE);
    copy_wide(vs + (j + 1) % 2 * MATRIX, v + (j + 1) * step, HEAD_DIM, length - (j + 1) * WIDE);
    commit();
    scores(s, mine, ks + (j + 1) % 2 * MATRIX);
    values(o, a, vs + j % 2 * MATRIX);
    wgmma_wait<1>();
    settle(s);
    if (j + 1 == tile) hide(s);
    soften(s, peak, sum, old, scale);
    wgmma_wait<0>();
    settle(o);
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; i++) o[i] *= old[i >> 1 & 1];
    pack_weights(a, s);
  }
  arrived();
  values(o, a, vs + tile % 2 * MATRIX);
  wgmma_wait<0>();
  settle(o);

#pragma unroll
  for (int h = 0; h < 2; h++) {
    float l = sum[h];
    l += __shfl_xor_sync(FULL, l, 1);
    l += __shfl_xor_sync(FULL, l, 2);
    int pos = tile * WIDE + warp * 16 + g + h * 8;
    if (pos >= length) continue;
    bf16 *to = out + ((u64)seq * length + pos) * heads * HEAD_DIM + head * HEAD_DIM + 2 * t;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n++) *(u32 *)(to + n * 8) = pack(o[4 * n + 2 * h] / l, o[4 * n + 2 * h + 1] / l);
  }
}

#endif
