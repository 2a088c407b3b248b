// The grouped GEMMs of a MoE prefill on Hopper. The pairs of a token and an expert are sorted by
// expert, so the inputs of an expert are consecutive rows. A tile is up to MOST_PAIRS of them, and an
// item is a tile times 256 rows of its expert's weights: 128 of the gate and 128 of up, or 256 of
// down. One warpgroup copies weights and inputs to shared memory, 64 columns a stage, and two
// multiply. Weights are the 64 rows of wgmma, and the pairs its columns: as many as the tile has,
// rounded up to 32, 64, 96, 128, 144 or 160.
//
//   weights {k, n, matrices}, x {k, pairs, 1}: tensors in boxes of {64, 128, 1} and
//   {64, BOX_PAIRS, 1}; order[pairs]: the pair of each row; tiles: their number,
//   followed by the expert, the first row and the rows of each

#if MOE

#define MOST_PAIRS 160

// sort_pairs makes order and tiles. It is one block.
extern "C" __global__ void sort_pairs(const int *chosen, int pairs, int experts, int *order, int *tiles) {
  __shared__ int count[WARP * EXPERT_LANE], begin[WARP * EXPERT_LANE], first[WARP * EXPERT_LANE + 1];
  for (int e = threadIdx.x; e < experts; e += blockDim.x) count[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) atomicAdd(count + chosen[i], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int at = first[0] = 0;
    for (int e = 0; e < experts; e++) begin[e] = at, at += count[e], first[e + 1] = first[e] + (count[e] + MOST_PAIRS - 1) / MOST_PAIRS;
    tiles[0] = first[experts];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    int n = first[e + 1] - first[e];
    for (int t = 0; t < n; t++) { // Tiles have even sizes.
      int from = t * count[e] / n, to = (t + 1) * count[e] / n, *tile = tiles + 1 + 3 * (first[e] + t);
      tile[0] = e, tile[1] = begin[e] + from, tile[2] = to - from;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) order[atomicAdd(begin + chosen[i], 1)] = i;
}

// gather_pairs copies the inputs of the pairs in their order: to[pairs][hidden].
extern "C" __global__ void gather_pairs(const bf16 *x, const int *order, int hidden, int top, bf16 *to) {
  u64 row = order[blockIdx.x] / top;
  for (int i = threadIdx.x * 8; i < hidden; i += blockDim.x * 8) *(uint4 *)(to + (u64)blockIdx.x * hidden + i) = *(const uint4 *)(x + row * hidden + i);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(OLDER)

#define BOX_PAIRS 16
#define HALF_BYTES (128 * 128)                                  // 128 rows of 64 columns of the weights
#define EXPERT_STAGE (2 * HALF_BYTES + MOST_PAIRS * 128)
#define EXPERT_STAGES 4

// A GroupedItem is the work of a block at a time.
struct GroupedItem {
  int expert, first, pairs, row; // row is that of the first 128 rows.
};

struct Grouped9 {
  const int *tiles;
  int n, k;
  bool gate;
  u64 *full, *empty;
  u32 ring;

  __device__ __forceinline__ int rows() const { return gate ? 128 : 256; } // outputs of an item
  __device__ __forceinline__ int of_tile() const { return (n + rows() - 1) / rows(); }
  __device__ __forceinline__ int stages() const { return (k + 63) / 64; }
  __device__ __forceinline__ bool take(GroupedItem &at, int i) const {
    if (i >= tiles[0] * of_tile()) return false;
    const int *tile = tiles + 1 + 3 * (i / of_tile());
    at.expert = tile[0], at.first = tile[1], at.pairs = tile[2], at.row = i % of_tile() * rows();
    return true;
  }

  // copy is the loop of the one copying thread.
  __device__ void copy(const TensorMap &w, const TensorMap &x) const {
    GroupedItem at;
    u32 slot = 0, phase = 1;
    for (int i = blockIdx.x; take(at, i); i += gridDim.x)
      for (int s = 0; s < stages(); s++) {
        barrier_wait(empty + slot, phase);
        u32 to = ring + slot * EXPERT_STAGE;
        int boxes = (at.pairs + BOX_PAIRS - 1) / BOX_PAIRS;
        expect_boxes(full + slot, 2 * HALF_BYTES + boxes * BOX_PAIRS * 128);
        copy_box(to, w, s * 64, at.row, gate ? 2 * at.expert : at.expert, full + slot);
        copy_box(to + HALF_BYTES, w, s * 64, gate ? at.row : at.row + 128, gate ? 2 * at.expert + 1 : at.expert, full + slot);
        for (int b = 0; b < boxes; b++) copy_box(to + 2 * HALF_BYTES + b * BOX_PAIRS * 128, x, s * 64, at.first + b * BOX_PAIRS, 0, full + slot);
        if (++slot == EXPERT_STAGES) slot = 0, phase ^= 1;
      }
  }
};

// multiply_item multiplies an item of up to N pairs in a warpgroup; one and two are its rows of either
// half.
template <int N>
__device__ __forceinline__ void multiply_item(const Grouped9 &p, u32 &slot, u32 &phase, float (&one)[N / 2], float (&two)[N / 2]) {
  u32 group = __shfl_sync(FULL, threadIdx.x / 128 - 1, 0), before = 0;
  int stages = p.stages();
  for (int s = 0; s < stages; s++) {
    barrier_wait(p.full + slot, phase);
    u32 a = p.ring + slot * EXPERT_STAGE, x = a + 2 * HALF_BYTES;
    a += group * 64 * 128;
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < 4; d++) {
      wgmma_product(one, descriptor(a + d * 32, 16), descriptor(x + d * 32, 16));
      wgmma_product(two, descriptor(a + HALF_BYTES + d * 32, 16), descriptor(x + d * 32, 16));
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (s > 0 && threadIdx.x % WARP == 0) barrier_arrive(p.empty + before);
    before = slot;
    if (++slot == EXPERT_STAGES) slot = 0, phase ^= 1;
  }
  wgmma_wait<0>();
  settle(one);
  settle(two);
  if (threadIdx.x % WARP == 0) barrier_arrive(p.empty + before);
}

// store_columns writes 16 rows of a warp: to[pair][row]. This lane has rows g and g+8 of pairs 2t and
// 2t+1 of each eight pairs; each of four lanes writes 8 bytes of a pair's 32.
__device__ __forceinline__ void store_columns(bf16 *to, u64 stride, u32 low8, u32 high8, int pair) {
  int t = threadIdx.x % 4, from = threadIdx.x % WARP / 4 * 4 + t % 2 * 2;
  u32 a = transpose8(low8), b = transpose8(high8); // outputs 2t and 2t+1 of pair g
  u32 a0 = __shfl_sync(FULL, a, from), a1 = __shfl_sync(FULL, a, from + 1), b0 = __shfl_sync(FULL, b, from), b1 = __shfl_sync(FULL, b, from + 1);
  if (pair >= 0) *(uint2 *)(to + pair * stride + t * 4) = make_uint2(t < 2 ? a0 : b0, t < 2 ? a1 : b1);
}

template <int N, bool GATE>
__device__ __forceinline__ void grouped_item(const Grouped9 &p, const GroupedItem &at, u32 &slot, u32 &phase, const int *order, bf16 *out) {
  float one[N / 2] = {}, two[N / 2] = {};
  multiply_item<N>(p, slot, phase, one, two);
  int lane = threadIdx.x % WARP, row = at.row + (threadIdx.x / 128 - 1) * 64 + threadIdx.x % 128 / WARP * 16;
#pragma unroll
  for (int c = 0; c < N / 8; c++) {
    int i = c * 8 + lane / 4, pair = -1;
    if (i < at.pairs) pair = GATE ? at.first + i : order[at.first + i];
    if (GATE) {
      float v[4];
#pragma unroll
      for (int j = 0; j < 4; j++) v[j] = activate(one[4 * c + j]) * two[4 * c + j];
      store_columns(out + row, p.n, pack(v[0], v[1]), pack(v[2], v[3]), row < p.n ? pair : -1);
    } else {
      store_columns(out + row, p.n, pack(one[4 * c], one[4 * c + 1]), pack(one[4 * c + 2], one[4 * c + 3]), row < p.n ? pair : -1);
      store_columns(out + row + 128, p.n, pack(two[4 * c], two[4 * c + 1]), pack(two[4 * c + 2], two[4 * c + 3]), row + 128 < p.n ? pair : -1);
    }
  }
}

template <bool GATE>
__device__ __forceinline__ void grouped(const TensorMap &w, const TensorMap &x, const int *order, const int *tiles, int n, int k, bf16 *out) {
  DYNAMIC_SHARED(memory);
  __shared__ u64 full[EXPERT_STAGES], empty[EXPERT_STAGES];
  Grouped9 p = {tiles, n, k, GATE, full, empty, (shared_address(memory) + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    for (int i = 0; i < EXPERT_STAGES; i++) barrier_init(full + i, 1), barrier_init(empty + i, 8);
    show_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) p.copy(w, x);
    return;
  }
  take_registers<240>();
  u32 slot = 0, phase = 0;
  GroupedItem at;
  for (int i = blockIdx.x; p.take(at, i); i += gridDim.x) {
    if (at.pairs <= 32)
      grouped_item<32, GATE>(p, at, slot, phase, order, out);
    else if (at.pairs <= 64)
      grouped_item<64, GATE>(p, at, slot, phase, order, out);
    else if (at.pairs <= 96)
      grouped_item<96, GATE>(p, at, slot, phase, order, out);
    else if (at.pairs <= 128)
      grouped_item<128, GATE>(p, at, slot, phase, order, out);
    else if (at.pairs <= 144)
      grouped_item<144, GATE>(p, at, slot, phase, order, out);
    else
      grouped_item<160, GATE>(p, at, slot, phase, order, out);
  }
}

// prompts_gate_up_hopper computes act[pairs][inner]; act and x are sorted by expert.
extern "C" __global__ void __launch_bounds__(384, 1)
    prompts_gate_up_hopper(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const int *order, const int *tiles, int hidden,
                           int inner, bf16 *act) {
  grouped<true>(w, x, order, tiles, inner, hidden, act);
}

// prompts_down_hopper computes each pair's output: out[rows][top][hidden].
extern "C" __global__ void __launch_bounds__(384, 1)
    prompts_down_hopper(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap act, const int *order, const int *tiles, int hidden,
                        int inner, bf16 *out) {
  grouped<false>(w, act, order, tiles, hidden, inner, out);
}

#endif
#endif
