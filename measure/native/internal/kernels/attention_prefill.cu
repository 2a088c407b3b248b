// Causal attention of whole prompts: FlashAttention-2 (arXiv:2307.08691) on tensor cores. A block of
// four warps takes 64 queries of one head, 16 a warp, and iterates over the keys in tiles of KEYS; the
// next tile is copied while one is computed. Scores never leave the registers. KEYS is 64, or less if
// the host defines it because a block has no room for two tiles of 64.
//
//   qkv[batch*length][(heads+2*kv_heads)*HEAD_DIM], queries rotated
//   k_cache, v_cache[batch][kv_heads][capacity][HEAD_DIM]; out[batch*length][heads*HEAD_DIM]
//
// Shared memory has rows of HEAD_DIM values in 16-byte pieces. Piece c of row r lies at c^(r%8), so
// that the eight rows of an ldmatrix have no bank conflicts.

#define TILE 64
#ifndef KEYS
#define KEYS 64
#endif
#define PIECES (HEAD_DIM / 8)

__device__ __forceinline__ u32 piece(u32 base, int row, int c) { return base + (row * PIECES + (c ^ (row & 7))) * 16; }

// copy_tile starts copying ROWS rows; it fills rows from have on with zeros.
template <int ROWS>
__device__ __forceinline__ void copy_tile(u32 base, const bf16 *from, u64 stride, int have) {
  for (int i = threadIdx.x; i < ROWS * PIECES; i += 4 * WARP) {
    int r = i / PIECES, c = i % PIECES, bytes = r < have ? 16 : 0;
    copy16_or_zero(piece(base, r, c), from + (r < have ? r : 0) * stride + c * 8, bytes);
  }
}

#if SLIDING
#define WINDOW , int window // A query sees so many tokens, itself included.
#else
#define WINDOW
#endif

extern "C" __global__ void __launch_bounds__(4 * WARP, 2)
    attention_prefill(const bf16 *qkv, const bf16 *k_cache, const bf16 *v_cache, bf16 *out, int kv_heads, int length, int capacity, float scale WINDOW) {
  DYNAMIC_SHARED(smem);
  int heads = kv_heads * GROUP, head = blockIdx.y, seq = blockIdx.z;
  int tile = gridDim.x - 1 - blockIdx.x; // Blocks with the longest rows start first.
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, mi = lane / 8, mr = lane % 8;
  u64 width = (u64)(heads + 2 * kv_heads) * HEAD_DIM;
  const u32 size = KEYS * HEAD_DIM * 2;
  u32 qs = shared_address(smem), ks = qs + TILE * HEAD_DIM * 2, vs = ks + 2 * size;
  const bf16 *q = qkv + ((u64)seq * length + tile * TILE) * width + head * HEAD_DIM;
  u64 cache = ((u64)seq * kv_heads + head / GROUP) * capacity * HEAD_DIM;

  int start = 0, diagonal = tile * (TILE / KEYS); // the first visible tile of keys, and the tile on the diagonal
#if SLIDING
  start = max(tile * TILE - window + 1, 0) / KEYS;
  cache += (u64)start * KEYS * HEAD_DIM;
#endif
  copy_tile<TILE>(qs, q, width, length - tile * TILE);
  copy_tile<KEYS>(ks, k_cache + cache, HEAD_DIM, length - start * KEYS);
  copy_tile<KEYS>(vs, v_cache + cache, HEAD_DIM, length - start * KEYS);
  commit();

  float o[HEAD_DIM / 8][4] = {}, peak[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
  scale *= LOG2E;
  int tiles = diagonal + TILE / KEYS - start;
  for (int j = 0; j < tiles; j++) { // j counts tiles of keys from the first visible one.
    if (j + 1 < tiles) {
      u64 at = cache + (u64)(j + 1) * KEYS * HEAD_DIM;
      copy_tile<KEYS>(ks + (j + 1) % 2 * size, k_cache + at, HEAD_DIM, length - (start + j + 1) * KEYS);
      copy_tile<KEYS>(vs + (j + 1) % 2 * size, v_cache + at, HEAD_DIM, length - (start + j + 1) * KEYS);
    }
    commit();
    wait_copies<1>();
    __syncthreads();
    u32 k = ks + j % 2 * size, v = vs + j % 2 * size;

    float s[KEYS / 8][4] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 16; d++) {
      u32 a[4];
      ldmatrix(a, piece(qs, warp * 16 + (mi & 1) * 8 + mr, d * 2 + (mi >> 1)));
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        u32 b[4];
        ldmatrix(b, piece(k, n * 16 + (mi >> 1) * 8 + mr, d * 2 + (mi & 1)));
        mma(s[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        mma(s[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
#ifdef ATT_SOFTCAP
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) s[n][i] = bend(s[n][i] * scale, ATT_SOFTCAP * LOG2E) / scale;
#endif
#if SLIDING
    int behind = (diagonal - start - j) * KEYS + warp * 16 + g - 2 * t - window; // the distance of the lane's first key and query beyond the window
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (behind + (i >> 1) * 8 - n * 8 - (i & 1) >= 0) s[n][i] = -INFINITY;
#endif
    if (j >= diagonal - start) { // This tile is on the diagonal, where a query sees keys up to itself.
      int ahead = warp * 16 + g - (j - diagonal + start) * KEYS;
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (n * 8 + 2 * t + (i & 1) > ahead + (i >> 1) * 8) s[n][i] = -INFINITY;
    }
#pragma unroll
    for (int h = 0; h < 2; h++) { // rows g and g+8
      float m = peak[h];
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) m = fmaxf(m, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
      m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
      float base = m;
      if (SLIDING && m == -INFINITY) base = 0.f; // No key of this tile is visible.
      float old = exp2f((peak[h] - base) * scale), row = 0.f, shift = base * scale;
      peak[h] = m;
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) row += s[n][2 * h + i] = exp2f(fmaf(s[n][2 * h + i], scale, -shift));
      sum[h] = sum[h] * old + row;
#pragma unroll
      for (int n = 0; n < HEAD_DIM / 8; n++) o[n][2 * h] *= old, o[n][2 * h + 1] *= old;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
      u32 a[4] = {pack(s[2 * n][0], s[2 * n][1]), pack(s[2 * n][2], s[2 * n][3]), pack(s[2 * n + 1][0], s[2 * n + 1][1]),
                  pack(s[2 * n + 1][2], s[2 * n + 1][3])};
#pragma unroll
      for (int d = 0; d < HEAD_DIM / 16; d++) {
        u32 b[4];
        ldmatrix_transposed(b, piece(v, n * 16 + (mi & 1) * 8 + mr, d * 2 + (mi >> 1)));
        mma(o[2 * d], a[0], a[1], a[2], a[3], b[0], b[1]);
        mma(o[2 * d + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int h = 0; h < 2; h++) {
    float l = sum[h];
    l += __shfl_xor_sync(FULL, l, 1);
    l += __shfl_xor_sync(FULL, l, 2);
    int pos = tile * TILE + warp * 16 + g + h * 8;
    if (pos >= length) continue;
    bf16 *to = out + ((u64)seq * length + pos) * heads * HEAD_DIM + head * HEAD_DIM + 2 * t;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n++) *(u32 *)(to + n * 8) = pack(o[n][2 * h] / l, o[n][2 * h + 1] / l);
  }
}

#if SLIDING
// move_rows copies keys and values of some tokens from one cache to another. Each cache is a ring
// buffer: token t lies at row t modulo the capacity. One block does one token, key head and sequence;
// half of its threads copy the keys.
//
//   from_k, from_v[batch][kv_heads][from_capacity][HEAD_DIM], to_k,
//   to_v[batch][kv_heads][to_capacity][HEAD_DIM]
extern "C" __global__ void move_rows(const bf16 *from_k, const bf16 *from_v, bf16 *to_k, bf16 *to_v, int from_capacity, int from_first,
                                     int to_capacity, int to_first) {
  u64 head = (u64)blockIdx.z * gridDim.y + blockIdx.y;
  u64 from = (head * from_capacity + (from_first + blockIdx.x) % from_capacity) * HEAD_DIM;
  u64 to = (head * to_capacity + (to_first + blockIdx.x) % to_capacity) * HEAD_DIM;
  int i = threadIdx.x % PIECES * 8;
  if (threadIdx.x < PIECES)
    *(uint4 *)(to_k + to + i) = *(const uint4 *)(from_k + from + i);
  else
    *(uint4 *)(to_v + to + i) = *(const uint4 *)(from_v + from + i);
}
#endif
