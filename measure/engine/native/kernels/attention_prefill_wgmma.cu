// Causal attention of whole prompts on Hopper, with roles for warpgroups as in
// FlashAttention-3 (arXiv:2407.08608): one copies queries, keys and values to shared
// memory, and two multiply. A block stays on its multiprocessor and takes one item
// after the other: 128 queries of one head, 64 a warpgroup, over the keys in tiles of
// 128 from the diagonal to the first. The next item's queries and keys are copied
// while the last one's output is written. Within a warpgroup the scores of the next
// tile are computed while the soft-max of this one is.
//
// Arguments are those of attention_prefill, and how many prompts there are; with
// PREFILL_BULK, how queries, keys and values lie in memory:
//
//   queries {HEAD_DIM*(heads+2*kv_heads), length, prompts}, keys and values
//   {HEAD_DIM, length, kv_heads*prompts}; boxes are of {64, 128, 1}, swizzled by 128 bytes
//
// Shared memory is that of attention_prefill_hopper.cu.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && HEAD_DIM <= 128 && !SLIDING && !defined(ATT_SOFTCAP)

#ifndef PREFILL_BULK
#define PREFILL_BULK 0 // 1: bulk copies by one thread, not 16 bytes at a time by 128
#endif
#ifndef PREFILL_TURNS
#define PREFILL_TURNS 0 // 1: the two warpgroups take turns at the tensor cores
#endif

#ifndef PREFILL_FIRST
#define PREFILL_FIRST 0 // 1: weights are all computed before the products of the last ones are waited for
#endif

#ifndef PREFILL_JOIN
#define PREFILL_JOIN 0 // 1: the next item's first scores are computed with the last values of this one
#endif
#define QUERIES (1 + PREFILL_JOIN) // tiles of them in shared memory

#if PREFILL_BULK
#define MAPS , const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map
#define COPY_THREADS 1
#define COPY_REGISTERS 24
#define PRODUCT_REGISTERS 240
#else
#define MAPS
#define COPY_THREADS 128
#define COPY_REGISTERS 40
#define PRODUCT_REGISTERS 232
#endif

// Ring counts what goes through shared memory: full when copied, empty when read by
// all eight warps that multiply.
struct Ring {
  u64 q_full[QUERIES], q_empty[QUERIES], k_full[2], k_empty[2], v_full[2], v_empty[2];
};

// Prompts is what there is to do.
struct Prompts {
  int kv_heads, length, capacity, prompts;
  __device__ __forceinline__ int heads() const { return kv_heads * GROUP; }
  __device__ __forceinline__ int tiles() const { return (length + WIDE - 1) / WIDE; }
  __device__ __forceinline__ int items() const { return tiles() * heads() * prompts; }
};

struct Item {
  int tile, head, seq;
};

// item is what the block does in a round, those with most keys first; every other
// round goes through the blocks backward, so that none has the longest of each.
__device__ __forceinline__ bool item(Item &at, const Prompts &p, int round) {
  int i = round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x), level = p.heads() * p.prompts;
  at.tile = p.tiles() - 1 - i / level;
  at.head = i % level % p.heads(), at.seq = i % level / p.heads();
  return i < p.items();
}

#if !PREFILL_BULK
// copy_rows starts copying 128 rows by 128 threads; rows from have on are zeros.
__device__ __forceinline__ void copy_rows(u32 to, const bf16 *from, u64 stride, int have) {
  const int rows = 128 / PIECES; // at a time, a multiple of 8
  int first = threadIdx.x / PIECES, c = threadIdx.x % PIECES;
  to += c / 8 * BLOCK + first * 128 + ((c % 8) ^ (first & 7)) * 16;
  from += c * 8;
#pragma unroll 4
  for (int r = first; r < WIDE; r += rows, to += rows * 128) copy16_or_zero(to, from + (r < have ? r : 0) * stride, r < have ? 16 : 0);
}
#else
// copy_rows starts copying 128 rows by one thread, to be counted at the barrier.
__device__ __forceinline__ void copy_rows(u32 to, const TensorMap &map, int x, int y, int z, u64 *full) {
  barrier_expect(full, MATRIX);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 64; i++) copy_box(to + i * BLOCK, map, x + i * 64, y, z, full);
}
#endif

// weigh is one tile of scores made weights, for both rows of the thread.
__device__ __forceinline__ void weigh(float (&s)[64], float (&peak)[2], float (&sum)[2], float (&old)[2], float scale) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float m = peak[h];
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++) m = fmaxf(m, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
    float row[2] = {0.f, 0.f}, shift = -m * scale;
    old[h] = power_of_2(fmaf(peak[h], scale, shift));
    peak[h] = m;
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
      for (int i = 0; i < 2; i++) row[i] += s[4 * n + 2 * h + i] = power_of_2(fmaf(s[4 * n + 2 * h + i], scale, shift));
    sum[h] = fmaf(sum[h], old[h], row[0] + row[1]);
  }
}

// mask takes out the keys behind the query, of the tile on the diagonal.
__device__ __forceinline__ void mask(float (&s)[64], int row) {
  int behind = row - threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (n * 8 + (i & 1) - (i >> 1) * 8 > behind) s[4 * n + i] = -INFINITY;
}

// write_rows divides by the sums and writes 64 rows of a warpgroup, row and row+8 of them by
// this thread. Four lanes have a row: they exchange what they have, so that each writes 16
// bytes that lie together.
__device__ __forceinline__ void write_rows(bf16 *out, const float (&o)[HEAD_DIM / 2], const float (&sum)[2], int row, int length, u64 stride) {
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
      u32 w[4], r[4]; // w[i]: values 2t and 2t+1 of eight n+i
#pragma unroll
      for (int i = 0; i < 4; i++) w[i] = pack(o[4 * (n + i) + 2 * h] * l, o[4 * (n + i) + 2 * h + 1] * l);
      // A transposition of 4x4: first with the lane one away, then two.
      u32 a = __shfl_xor_sync(FULL, t & 1 ? w[0] : w[1], 1), b = __shfl_xor_sync(FULL, t & 1 ? w[2] : w[3], 1);
      if (t & 1)
        w[0] = a, w[2] = b;
      else
        w[1] = a, w[3] = b;
      a = __shfl_xor_sync(FULL, t & 2 ? w[0] : w[2], 2), b = __shfl_xor_sync(FULL, t & 2 ? w[1] : w[3], 2);
      r[0] = t & 2 ? a : w[0], r[1] = t & 2 ? b : w[1], r[2] = t & 2 ? w[2] : a, r[3] = t & 2 ? w[3] : b;
      if (row + h * 8 < length) *(uint4 *)(to + n * 8) = make_uint4(r[0], r[1], r[2], r[3]);
    }
  }
}

// write_item writes the rows of an item that a warpgroup has.
__device__ __forceinline__ void write_item(bf16 *out, const float (&o)[HEAD_DIM / 2], const float (&sum)[2], const Item &at, const Prompts &p, int group, int row) {
  u64 stride = (u64)p.heads() * HEAD_DIM;
  int first = at.tile * WIDE + group * 64;
  write_rows(out + ((u64)at.seq * p.length + first) * stride + at.head * HEAD_DIM, o, sum, row, p.length - first, stride);
}

// full_wait waits until a copy is there.
__device__ __forceinline__ void full_wait(u64 *b, u32 parity) {
  barrier_wait(b, parity);
#if !PREFILL_BULK
  show_copies();
#endif
}

// release says that this warp has read what was copied.
__device__ __forceinline__ void release(u64 *b) {
  if (threadIdx.x % WARP == 0) barrier_arrive(b);
}

// begin_turn waits for the other warpgroup to have queued its products, and end_turn
// says that this one has.
__device__ __forceinline__ void begin_turn(int group) {
#if PREFILL_TURNS
  sync_threads_of(1 + group, 256);
#endif
}

__device__ __forceinline__ void end_turn(int group) {
#if PREFILL_TURNS
  arrive_at(2 - group, 256);
#endif
}

extern "C" __global__ void __launch_bounds__(384, 1) attention_prefill_wgmma(const bf16 *qkv, const bf16 *k_cache, const bf16 *v_cache, bf16 *out, int kv_heads,
                                                                             int length, int capacity, float scale, int prompts MAPS) {
  DYNAMIC_SHARED(unaligned);
  __shared__ Ring ring;
  u32 qs = (shared_address(unaligned) + 1023) / 1024 * 1024, ks = qs + QUERIES * MATRIX, vs = ks + 2 * MATRIX;
  Prompts p = {kv_heads, length, capacity, prompts};
  Item at;
  if (threadIdx.x == 0) {
    for (int i = 0; i < QUERIES; i++) barrier_init(ring.q_full + i, COPY_THREADS), barrier_init(ring.q_empty + i, 8);
    for (int i = 0; i < 2; i++) {
      barrier_init(ring.k_full + i, COPY_THREADS), barrier_init(ring.v_full + i, COPY_THREADS);
      barrier_init(ring.k_empty + i, 8), barrier_init(ring.v_empty + i, 8);
    }
    show_barriers();
  }
  __syncthreads();
  u32 n = 0; // tiles of keys so far; tile n is in half n&1, which has been used n>>1 times before

  if (threadIdx.x < 128) {
    leave_registers<COPY_REGISTERS>();
#if PREFILL_BULK
    if (threadIdx.x == 0) {
      for (int round = 0; item(at, p, round); round++) {
        int z = at.seq * kv_heads + at.head / GROUP;
        int half = round % QUERIES;
        barrier_wait(ring.q_empty + half, ~(round / QUERIES) & 1);
        copy_rows(qs + half * MATRIX, q_map, at.head * HEAD_DIM, at.tile * WIDE, at.seq, ring.q_full + half);
        for (int j = at.tile; j >= 0; j--, n++) {
          barrier_wait(ring.k_empty + (n & 1), ~(n >> 1) & 1);
          copy_rows(ks + (n & 1) * MATRIX, k_map, 0, j * WIDE, z, ring.k_full + (n & 1));
          barrier_wait(ring.v_empty + (n & 1), ~(n >> 1) & 1);
          copy_rows(vs + (n & 1) * MATRIX, v_map, 0, j * WIDE, z, ring.v_full + (n & 1));
        }
      }
    }
#else
    u64 width = (u64)(p.heads() + 2 * kv_heads) * HEAD_DIM;
    for (int round = 0; item(at, p, round); round++) {
      u64 cache = ((u64)at.seq * kv_heads + at.head / GROUP) * capacity * HEAD_DIM;
      int half = round % QUERIES;
      barrier_wait(ring.q_empty + half, ~(round / QUERIES) & 1);
      copy_rows(qs + half * MATRIX, qkv + ((u64)at.seq * length + at.tile * WIDE) * width + at.head * HEAD_DIM, width, length - at.tile * WIDE);
      barrier_arrive_copied(ring.q_full + half);
      for (int j = at.tile; j >= 0; j--, n++) {
        u64 from = cache + (u64)j * WIDE * HEAD_DIM;
        barrier_wait(ring.k_empty + (n & 1), ~(n >> 1) & 1);
        copy_rows(ks + (n & 1) * MATRIX, k_cache + from, HEAD_DIM, length - j * WIDE);
        barrier_arrive_copied(ring.k_full + (n & 1));
        barrier_wait(ring.v_empty + (n & 1), ~(n >> 1) & 1);
        copy_rows(vs + (n & 1) * MATRIX, v_cache + from, HEAD_DIM, length - j * WIDE);
        barrier_arrive_copied(ring.v_full + (n & 1));
      }
    }
    wait_copies<0>();
#endif
  } else {
    take_registers<PRODUCT_REGISTERS>();
    int group = __shfl_sync(FULL, threadIdx.x / 128 - 1, 0), row = threadIdx.x % 128 / WARP * 16 + threadIdx.x % WARP / 4;
    u32 mine = qs + group * 64 * 128;
    scale *= LOG2E;
    if (group == 1) end_turn(group); // the first turn is group 0's
#if PREFILL_JOIN
    float s[64], o[HEAD_DIM / 2] = {}, peak[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, old[2];
    u32 a[WIDE / 16][4];
    item(at, p, 0);
    full_wait(ring.q_full, 0);
    full_wait(ring.k_full, 0);
    scores(s, mine, ks);
    wgmma_wait<0>();
    settle(s);
    release(ring.k_empty);
    if (at.tile == 0) release(ring.q_empty);
    mask(s, group * 64 + row);
    weigh(s, peak, sum, old, scale);
    pack_weights(a, s);
    for (int round = 0, j = at.tile;;) {
      // The weights are those of tile j of item at; what is next is of the item next.
      bool fresh = j == 0;
      Item next = at;
      if (fresh) {
        if (!item(next, p, ++round)) break;
        j = next.tile;
        full_wait(ring.q_full + (round & 1), round >> 1 & 1);
      } else {
        j--;
      }
      u32 now = n++ & 1;
      full_wait(ring.k_full + (n & 1), n >> 1 & 1);
      begin_turn(group);
      scores(s, mine + (round & 1) * MATRIX, ks + (n & 1) * MATRIX);
      full_wait(ring.v_full + now, (n - 1) >> 1 & 1);
      values(o, a, vs + now * MATRIX);
      end_turn(group);
      wgmma_wait<1>();
      settle(s);
      release(ring.k_empty + (n & 1));
      if (j == 0) release(ring.q_empty + (round & 1));
      float last[2] = {sum[0], sum[1]};
      if (fresh) {
        settle(s); // so that this stays a branch
        mask(s, group * 64 + row);
        peak[0] = peak[1] = -INFINITY, sum[0] = sum[1] = 0.f;
      }
      weigh(s, peak, sum, old, scale);
#if PREFILL_FIRST
      computed(sum[0] + sum[1]);
#endif
      wgmma_wait<0>();
      settle(o);
      release(ring.v_empty + now);
      if (fresh) {
        write_item(out, o, last, at, p, group, row);
        at = next;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i++) o[i] = 0.f;
      }
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 2; i++) o[i] *= old[i >> 1 & 1];
      pack_weights(a, s);
    }
    full_wait(ring.v_full + (n & 1), n >> 1 & 1);
    values(o, a, vs + (n & 1) * MATRIX);
    wgmma_wait<0>();
    settle(o);
    write_item(out, o, sum, at, p, group, row);
#else
    for (int round = 0; item(at, p, round); round++) {
      float s[64], o[HEAD_DIM / 2] = {}, peak[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, old[2];
      u32 a[WIDE / 16][4];
      full_wait(ring.q_full, round & 1);
      full_wait(ring.k_full + (n & 1), n >> 1 & 1);
      scores(s, mine, ks + (n & 1) * MATRIX);
      wgmma_wait<0>();
      settle(s);
      release(ring.k_empty + (n & 1));
      if (at.tile == 0) release(ring.q_empty);
      mask(s, group * 64 + row);
      weigh(s, peak, sum, old, scale);
      pack_weights(a, s);
      for (int j = at.tile; j > 0; j--) {
        u32 now = n++ & 1;
        full_wait(ring.k_full + (n & 1), n >> 1 & 1);
        begin_turn(group);
        scores(s, mine, ks + (n & 1) * MATRIX);
        full_wait(ring.v_full + now, (n - 1) >> 1 & 1);
        values(o, a, vs + now * MATRIX);
        end_turn(group);
        wgmma_wait<1>();
        settle(s);
        release(ring.k_empty + (n & 1));
        if (j == 1) release(ring.q_empty);
        weigh(s, peak, sum, old, scale);
#if PREFILL_FIRST
        computed(sum[0] + sum[1]);
#endif
        wgmma_wait<0>();
        settle(o);
        release(ring.v_empty + now);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i++) o[i] *= old[i >> 1 & 1];
        pack_weights(a, s);
      }
      full_wait(ring.v_full + (n & 1), n >> 1 & 1);
      values(o, a, vs + (n & 1) * MATRIX);
      wgmma_wait<0>();
      settle(o);
      release(ring.v_empty + (n & 1));
      n++;
      write_item(out, o, sum, at, p, group, row);
    }
#endif
  }
}

#endif
