// The loop of the MoE megakernel over the layers, its division of shared memory, and the kernel.

#ifdef STEP_SHAPE

// Step adds the loop over the layers of the multiplying warps.
struct Step : StepToken {
  // fetch starts the copies of a layer's norms and of the block's row of the router.
  __device__ __forceinline__ void fetch(int l) const {
    const StepLayer &w = table[l];
    u64 policy = evict_first();
    if (blockIdx.x < a.experts)
#pragma unroll 1
      for (int i = threadIdx.x * 8; i < a.hidden; i += STEP_THREADS * 8) copy16_once(shared_address(row + i), w.router + (u64)blockIdx.x * a.hidden + i, policy);
#pragma unroll 1
    for (int i = threadIdx.x; i < items_of_block(a.hidden / 16) * 4; i += STEP_THREADS) {
      const bf16 *from = (i & 2 ? w.norm : w.mid) + item(i / 4) * 16 + (i & 1) * 8;
      copy16(shared_address(norm_weights_of(l, i / 4, i / 2 & 1) + (i & 1) * 8), from);
    }
#if QK_NORM
#pragma unroll 1
    for (int i = threadIdx.x; i < HEAD_DIM / 4; i += STEP_THREADS) {
      int at = i % (HEAD_DIM / 8) * 8;
      copy16(shared_address(norms + (i < HEAD_DIM / 8 ? 0 : HEAD_DIM) + at), (i < HEAD_DIM / 8 ? w.q_norm : w.k_norm) + at);
    }
#endif
    commit();
  }

  __device__ void consume() const {
    fetch(0);
    wait_for_previous();
    u32 epoch = __ldcg(a.epochs + blockIdx.x);
    if (a.embedding)
      embed();
    else
      load();
    float *buffer = red;
    int first = 0; // the stage of the ring at which the next GEMM begins
    Context c = {(int)blockIdx.x % a.kv_heads, (int)blockIdx.x / a.kv_heads, 0, 0, nullptr};
#pragma unroll 1
    for (int l = 0; l < a.layers; l++) {
      const StepLayer &w = table[l];
      epoch++;
      qkv_projection(w, l, c, first, epoch);
      first += qkv_stages() - prefetches();
      if (attends(c)) attend(w, c, epoch);
      arrive_block(attended);
      output_projection(buffer, l, first, epoch);
      first += o_stages();
      gather_normed(ended, epoch);
      route(buffer, w, epoch);
      if (threadIdx.x < WARP) store_scale(scaling + 1, squares, a.eps);
      buffer = other_buffer(buffer);
      choose(l, epoch);
      if (l + 1 < a.layers) fetch(l + 1);
      barrier_wait(decided, l & 1);
      if (threadIdx.x / WARP == 0) weigh_experts();
      experts(buffer, l, first, epoch);
      first += gate_up_stages() + down_stages();
    }
    if (a.head) choose_token(first, epoch++);
    if (threadIdx.x == 0) a.epochs[blockIdx.x] = epoch;
  }
};

// step_of divides the shared memory of a block and runs it; widest is the most values that it gathers at a time.
__device__ __forceinline__ void step_of(const StepArgs &a, int widest) {
  DYNAMIC_SHARED(ring);
  __shared__ u64 full[STEP_STAGES], empty[STEP_STAGES], prefetch_full[STEP_STAGES], consumed, attended, decided;
  __shared__ __align__(16) float red[2 * CONSUMERS * RED_PITCH];
  __shared__ __align__(16) u32 keys[WARP * EXPERT_LANE];
  __shared__ int chosen[2 * WARP];
  __shared__ float share[WARP], score[WARP], scaling[2];
  __shared__ __align__(16) HeadShared sh;
  int tiles = (a.hidden / 16 + a.blocks - 1) / a.blocks;
  u8 *prefetch = ring + a.stages * STEP_STAGE;
  bf16 *in = (bf16 *)(prefetch + max(a.prefetched * STEP_STAGE, DEC_WARPS * STEP_TILES)), *row = in + widest, *norms = row + a.hidden, *norm_weights = norms + 2 * HEAD_DIM;
  float *stream = (float *)(norm_weights + tiles * 64);
  StepLayer *here_table = (StepLayer *)(stream + tiles * 16);
  float *squares = (float *)(here_table + a.layers), *sums = squares + (a.hidden / 16 + 3) / 4 * 4;
  u64 *partials = a.packets + a.rows, *att = partials + a.kv_heads * a.parts * (DEC_VALUES + 2 * a.parts * max(1, (1 << a.share) / HEAD_DIM)), *ended = att + a.width / 2;
  int normed = a.hidden / 2 + a.hidden / 16;
  u64 *acts = ended + STREAM_COPIES * normed, *after = acts + a.top * a.inner / 2, *scores = after + STREAM_COPIES * normed, *bests = scores + (SCORE_COPIES * a.experts + 1) / 2 * 2;
  StepState state = {a,    here_table, ring, full,    empty,  prefetch_full,   &consumed, &attended, &decided, prefetch, in,    row, norms, norm_weights, stream, sums,
              red, squares, keys, chosen, share, score, scaling, sh, a.packets, partials, att, ended, after, acts, scores, bests};
  Step s{{{{{{state}}}}}};
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < a.stages; i++) barrier_init(full + i, bulk_copies() ? WARP_ARRIVALS : WARP), barrier_init(empty + i, WARP_ARRIVALS);
#pragma unroll 1
    for (int i = 0; i < s.prefetches(); i++) barrier_init(prefetch_full + i, bulk_copies() ? WARP_ARRIVALS : WARP);
    barrier_init(&consumed, max(1, s.prefetches()) * WARP_ARRIVALS), barrier_init(&attended, BLOCK_ARRIVALS);
    barrier_init(&decided, (CONSUMERS + PRODUCERS) * WARP_ARRIVALS);
    before_bulk();
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < a.layers * (int)(sizeof(StepLayer) / 8); i += blockDim.x) ((u64 *)here_table)[i] = ((const u64 *)a.table)[i];
  __syncthreads();
  if (threadIdx.x >= CONSUMERS * WARP)
    s.produce();
  else
    s.consume();
}

extern "C" __global__ void __launch_bounds__(STEP_ALL, 1)
    mixture_step(const StepLayer *table, int layers, int vocab, int widest, float eps, float scale, int *positions, float *x, bf16 *h, float *squares,
                 u64 *packets, u32 *epochs, const bf16 *embedding, const bf16 *norm, const bf16 *head, float *logits, int *next, int *next_host) {
  StepArgs a = {table, layers, vocab, eps, scale, positions, x, h, squares, packets, epochs, embedding, norm, head, logits, next, next_host};
  step_of(a, widest);
}

#endif
