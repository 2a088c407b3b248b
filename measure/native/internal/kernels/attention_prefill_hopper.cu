// Causal attention of whole prompts on Hopper, with specialized warpgroups as in FlashAttention-3
// (arXiv:2407.08608): one copies queries, keys and values to shared memory, and two multiply. Blocks
// are persistent and take one item after the other: 128 queries of one head, 64 a warpgroup, over the
// keys in tiles of 128 from the diagonal to the first. The next item's queries and keys are copied
// while the last values of this one are added up and written. The two warpgroups alternate at the
// tensor cores, so that one computes its softmax during the other's GEMMs. Within a warpgroup the
// scores of the next tile are queued before the values of this one.
//
//   queries {HEAD_DIM*(heads+2*kv_heads), length, prompts}, rotated; keys and values
//   {HEAD_DIM, length, kv_heads*prompts}: tensors, the first dimension dense, copied
//   in boxes of {64, 128, 1}; out[prompts*length][heads*HEAD_DIM]
//
// Shared memory has rows of 64 values, 128 bytes, in blocks of 128 rows, swizzled as wgmma's
// descriptors define it (hopper.cuh).
//
// The host uses this kernel if the model has no active window and no soft cap.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(OLDER) && HEAD_DIM <= 128 && !SLIDING && !defined(ATT_SOFTCAP)

#define HOPPER_TILE 128                // queries, and keys, of a tile
#define BLOCK (HOPPER_TILE * 128)             // bytes of a block of 64 values of each row
#define MATRIX (HEAD_DIM / 64 * BLOCK) // bytes of a tile

// A PromptRing is the barriers in shared memory. Queries have one tile, keys and values two each.
// `full` says that a tile has been copied, and `empty` that all eight multiplying warps have read it.
// The block's n-th tile of keys, and of values, is in half n%2.
struct PromptRing {
  u64 q_full, q_empty, k_full[2], k_empty[2], v_full[2], v_empty[2];
};

// Tiles are the places of the tiles in shared memory.
struct Tiles {
  u32 q, k, v;
};

// Prompts are the arguments of the kernel.
struct Prompts {
  int kv_heads, length, prompts;
  __device__ __forceinline__ int heads() const { return kv_heads * GROUP; }
  __device__ __forceinline__ int tiles() const { return (length + HOPPER_TILE - 1) / HOPPER_TILE; }
  __device__ __forceinline__ int items() const { return tiles() * heads() * prompts; }
};

struct Item {
  int tile, head, prompt;
};

// take finds the block's item of a round. Items with most keys come first, and every other round goes
// through the blocks backward, so that no block has the longest item of each round.
__device__ __forceinline__ bool take(Item &at, const Prompts &p, int round) {
  int i = round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x), level = p.heads() * p.prompts;
  at.tile = p.tiles() - 1 - i / level;
  at.head = i % level % p.heads(), at.prompt = i % level / p.heads();
  return i < p.items();
}

// copy_rows starts copying 128 rows, whose bytes arrive at the barrier.
__device__ __forceinline__ void copy_rows(u32 to, const TensorMap &map, int x, int y, int z, u64 *full) {
  expect_boxes(full, MATRIX);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 64; i++) copy_box(to + i * BLOCK, map, x + i * 64, y, z, full);
}

// copy_items is the loop of the one copying thread. It waits for each part of shared memory until that
// is empty, as it is at first.
__device__ __forceinline__ void copy_items(PromptRing &ring, const Tiles &to, const Prompts &p, const TensorMap &q, const TensorMap &k, const TensorMap &v) {
  Item at;
  u32 n = 0;
  for (int round = 0; take(at, p, round); round++) {
    int z = at.prompt * p.kv_heads + at.head / GROUP;
    barrier_wait(&ring.q_empty, ~round & 1);
    copy_rows(to.q, q, at.head * HEAD_DIM, at.tile * HOPPER_TILE, at.prompt, &ring.q_full);
    for (int j = at.tile; j >= 0; j--, n++) {
      barrier_wait(ring.k_empty + (n & 1), ~(n >> 1) & 1);
      copy_rows(to.k + (n & 1) * MATRIX, k, 0, j * HOPPER_TILE, z, ring.k_full + (n & 1));
      barrier_wait(ring.v_empty + (n & 1), ~(n >> 1) & 1);
      copy_rows(to.v + (n & 1) * MATRIX, v, 0, j * HOPPER_TILE, z, ring.v_full + (n & 1));
    }
  }
}

// scores starts s = q·kᵀ.
__device__ __forceinline__ void scores(float (&s)[64], u32 q, u32 k) {
  wgmma_begin();
#pragma unroll
  for (int d = 0; d < HEAD_DIM / 16; d++) {
    u32 at = d / 4 * BLOCK + d % 4 * 32;
    wgmma_scores(s, descriptor(q + at, 16), descriptor(k + at, 16), d > 0);
  }
  wgmma_commit();
}

// values starts o += a·v.
__device__ __forceinline__ void values(float (&o)[HEAD_DIM / 2], const u32 (&a)[HOPPER_TILE / 16][4], u32 v) {
  wgmma_begin();
#pragma unroll
  for (int n = 0; n < HOPPER_TILE / 16; n++) wgmma_values(o, a[n], descriptor(v + n * 16 * 128, BLOCK));
  wgmma_commit();
}

// hide masks the scores of keys behind the query, in the tile on the diagonal.
__device__ __forceinline__ void hide(float (&s)[64], int row) {
  int behind = row - threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < HOPPER_TILE / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (n * 8 + (i & 1) - (i >> 1) * 8 > behind) s[4 * n + i] = -INFINITY;
}

// soften turns scores into softmax weights; old is the factor of earlier sums.
__device__ __forceinline__ void soften(float (&s)[64], float (&peak)[2], float (&sum)[2], float (&old)[2], float scale) {
#pragma unroll
  for (int h = 0; h < 2; h++) { // rows g and g+8
    float m = peak[h];
#pragma unroll
    for (int n = 0; n < HOPPER_TILE / 8; n++) m = fmaxf(m, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
    float row[2] = {0.f, 0.f}, shift = -m * scale;
    old[h] = power_of_2(fmaf(peak[h], scale, shift));
    peak[h] = m;
#pragma unroll
    for (int n = 0; n < HOPPER_TILE / 8; n++)
#pragma unroll
      for (int i = 0; i < 2; i++) row[i] += s[4 * n + 2 * h + i] = power_of_2(fmaf(s[4 * n + 2 * h + i], scale, shift));
    sum[h] = fmaf(sum[h], old[h], row[0] + row[1]);
  }
}

__device__ __forceinline__ void pack_weights(u32 (&a)[HOPPER_TILE / 16][4], const float (&s)[64]) {
#pragma unroll
  for (int n = 0; n < HOPPER_TILE / 16; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) a[n][i] = pack(s[8 * n + 2 * i], s[8 * n + 2 * i + 1]);
}

// write_rows divides by the sums and writes the rows of a warpgroup, of which this thread has row and
// row+8, except those from have on. Four lanes have a row and exchange values, so that each writes 16
// contiguous bytes.
__device__ __forceinline__ void write_rows(bf16 *out, const float (&o)[HEAD_DIM / 2], const float (&sum)[2], int row, int have, u64 stride) {
  int t = threadIdx.x % 4;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float l = sum[h];
    l += __shfl_xor_sync(FULL, l, 1);
    l += __shfl_xor_sync(FULL, l, 2);
    l = __fdividef(1.f, l);
    bf16 *to = out + (row + h * 8) * stride + t * 8;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n += 4) {
      u32 w[4], r[4]; // w[i]: values 2t and 2t+1 of eight n+i; r: all of eight n+t
#pragma unroll
      for (int i = 0; i < 4; i++) w[i] = pack(o[4 * (n + i) + 2 * h] * l, o[4 * (n + i) + 2 * h + 1] * l);
      // This transposes a 4x4 matrix: with the neighbouring lane, then with the lane two away.
      u32 a = __shfl_xor_sync(FULL, t & 1 ? w[0] : w[1], 1), b = __shfl_xor_sync(FULL, t & 1 ? w[2] : w[3], 1);
      if (t & 1)
        w[0] = a, w[2] = b;
      else
        w[1] = a, w[3] = b;
      a = __shfl_xor_sync(FULL, t & 2 ? w[0] : w[2], 2), b = __shfl_xor_sync(FULL, t & 2 ? w[1] : w[3], 2);
      r[0] = t & 2 ? a : w[0], r[1] = t & 2 ? b : w[1], r[2] = t & 2 ? w[2] : a, r[3] = t & 2 ? w[3] : b;
      if (row + h * 8 < have) *(uint4 *)(to + n * 8) = make_uint4(r[0], r[1], r[2], r[3]);
    }
  }
}

// release says that this warp has read a tile.
__device__ __forceinline__ void release(u64 *empty) {
  if (threadIdx.x % WARP == 0) barrier_arrive(empty);
}

// begin_turn waits until the other warpgroup has queued its GEMMs, and end_turn says that this one
// has.
__device__ __forceinline__ void begin_turn(int group) { sync_threads_of(1 + group, 256); }
__device__ __forceinline__ void end_turn(int group) { arrive_at(2 - group, 256); }

// attend_items is the loop of the two multiplying warpgroups, group 0 and 1.
__device__ __forceinline__ void attend_items(PromptRing &ring, const Tiles &at_tiles, const Prompts &p, bf16 *out, float scale) {
  Item at;
  u32 n = 0;
  int group = __shfl_sync(FULL, threadIdx.x / 128 - 1, 0), row = threadIdx.x % 128 / WARP * 16 + threadIdx.x % WARP / 4;
  u32 q = at_tiles.q + group * 64 * 128, ks = at_tiles.k, vs = at_tiles.v;
  if (group == 1) end_turn(group); // Group 0 has the first turn.
  for (int round = 0; take(at, p, round); round++) {
    float s[64], o[HEAD_DIM / 2] = {}, peak[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, old[2];
    u32 a[HOPPER_TILE / 16][4];
    barrier_wait(&ring.q_full, round & 1);
    barrier_wait(ring.k_full + (n & 1), n >> 1 & 1);
    scores(s, q, ks + (n & 1) * MATRIX);
    wgmma_wait<0>();
    settle(s);
    release(ring.k_empty + (n & 1));
    if (at.tile == 0) release(&ring.q_empty);
    hide(s, group * 64 + row);
    soften(s, peak, sum, old, scale);
    pack_weights(a, s);
    for (int j = at.tile; j > 0; j--) {
      u32 now = n++ & 1; // n counts halves of the values; the keys are a tile ahead.
      barrier_wait(ring.k_full + (n & 1), n >> 1 & 1);
      begin_turn(group);
      scores(s, q, ks + (n & 1) * MATRIX);
      barrier_wait(ring.v_full + now, (n - 1) >> 1 & 1);
      values(o, a, vs + now * MATRIX);
      end_turn(group);
      wgmma_wait<1>();
      settle(s);
      release(ring.k_empty + (n & 1));
      if (j == 1) release(&ring.q_empty);
      soften(s, peak, sum, old, scale);
      wgmma_wait<0>();
      settle(o);
      release(ring.v_empty + now);
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 2; i++) o[i] *= old[i >> 1 & 1];
      pack_weights(a, s);
    }
    barrier_wait(ring.v_full + (n & 1), n >> 1 & 1);
    values(o, a, vs + (n & 1) * MATRIX);
    wgmma_wait<0>();
    settle(o);
    release(ring.v_empty + (n & 1));
    n++;
    u64 stride = (u64)p.heads() * HEAD_DIM;
    int first = at.tile * HOPPER_TILE + group * 64;
    write_rows(out + ((u64)at.prompt * p.length + first) * stride + at.head * HEAD_DIM, o, sum, row, p.length - first, stride);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    attention_prefill_hopper(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v, bf16 *out,
                             int kv_heads, int length, int prompts, float scale) {
  DYNAMIC_SHARED(unaligned);
  __shared__ PromptRing ring;
  u32 first = (shared_address(unaligned) + 1023) / 1024 * 1024;
  Tiles tiles = {first, first + MATRIX, first + 3 * MATRIX};
  Prompts p = {kv_heads, length, prompts};
  if (threadIdx.x == 0) {
    barrier_init(&ring.q_full, 1), barrier_init(&ring.q_empty, 8);
    for (int i = 0; i < 2; i++) {
      barrier_init(ring.k_full + i, 1), barrier_init(ring.v_full + i, 1);
      barrier_init(ring.k_empty + i, 8), barrier_init(ring.v_empty + i, 8);
    }
    show_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) copy_items(ring, tiles, p, q, k, v);
  } else {
    take_registers<240>();
    attend_items(ring, tiles, p, out, scale * LOG2E);
  }
}

#endif
