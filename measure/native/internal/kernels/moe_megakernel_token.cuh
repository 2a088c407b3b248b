// The beginning and the end of a step in the MoE megakernel: the embedding of the last token, and the
// LM head with the greedy choice of the next. Each block sends its best score, and block 0 chooses
// among them.

#ifdef STEP_SHAPE

// StepToken adds the embedding, the LM head and the choice of the token.
struct StepToken : StepExperts {
  // embed makes the residual stream and the inputs of the first GEMM from the token's embedding.
  __device__ __forceinline__ void embed() const {
    const bf16 *from = a.embedding + (u64)__ldcg(a.next) * a.hidden;
#pragma unroll 1
    for (int i = threadIdx.x * 8; i - (int)threadIdx.x % WARP * 8 < a.hidden; i += STEP_THREADS * 8) {
      bool any = i < a.hidden;
      uint4 v = any ? load8(from + i) : make_uint4(0, 0, 0, 0), w = any ? load8(a.norm + i) : v;
      float ss = dot8(v, v);
      ss += __shfl_xor_sync(FULL, ss, 1);
      const u32 *x = &v.x, *y = &w.x;
      u32 o[4];
#pragma unroll
      for (int j = 0; j < 4; j++) o[j] = pack(low(x[j]) * gain(low(y[j])), high(x[j]) * gain(high(y[j])));
      if (any) *(uint4 *)(in + i) = make_uint4(o[0], o[1], o[2], o[3]);
      if (any && i % 16 == 0) squares[i / 16] = ss;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < items_of_block(a.hidden / 16) * 16; i += STEP_THREADS) stream[i] = to_float(from[item(i / 16) * 16 + i % 16]);
    sync_threads_of(1, STEP_THREADS);
  }

  // load loads the residual stream and the inputs of the first GEMM from the kernel before.
  __device__ __forceinline__ void load() const {
#pragma unroll 1
    for (int i = threadIdx.x; i < a.hidden / 8; i += STEP_THREADS) *((uint4 *)in + i) = __ldcg((const uint4 *)a.h + i);
#pragma unroll 1
    for (int i = threadIdx.x; i < items_of_block(a.hidden / 16) * 16; i += STEP_THREADS) stream[i] = __ldcg(a.x + item(i / 16) * 16 + i % 16);
#pragma unroll 1
    for (int i = threadIdx.x; i < a.hidden / 16; i += STEP_THREADS) squares[i] = __ldcg(a.squares + i);
    sync_threads_of(1, STEP_THREADS);
  }

  // choose_token computes the scores of the vocabulary and chooses the highest, the lowest index among
  // equals. epoch is that of the last layer. Score and index are packed as best_score packs them.
  __device__ __forceinline__ void choose_token(int first, u32 epoch) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = each_unit(), n = head_stages();
    u64 best = 0;
    float y = 0.f;
    gather_normed(after, epoch);
    if (threadIdx.x < WARP) store_scale(scaling + 1, squares, a.eps);
    sync_threads_of(1, STEP_THREADS);
    float scale = scaling[1];
#pragma unroll 1
    for (int i = warp; i < n; i += CONSUMERS) {
      u32 j = first + i, slot = j % a.stages;
      int part = i / CONSUMERS % each, col = part * 2 * STEP_DEPTH, unit = unit_of(i);
      barrier_wait(full + slot, j / a.stages & 1);
      y += multiply_unit(ring + slot * STEP_STAGE, in + col, a.hidden - col, a.hidden % (2 * STEP_DEPTH) == 0);
      arrive_warp(empty + slot);
      if (part + 1 < each) continue;
      if (unit < items_of_block(a.vocab / 8)) {
        int row = item(unit) * 8 + lane / 4;
        u32 bits = __float_as_uint(y * scale);
        if (lane % 4 == 0) a.logits[row] = y * scale;
        u64 key = (u64)(bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u)) << 32 | (0xffffffffu - (u32)row);
        best = key > best ? key : best;
      }
      y = 0.f;
    }
    best = highest(best);
    u64 *of_warps = (u64 *)red;
    if (lane == 0) of_warps[warp] = best;
    sync_threads_of(1, STEP_THREADS);
    if (warp > 0) return;
    best = highest(lane < CONSUMERS ? of_warps[lane] : 0);
    if (lane == 0) ll_store_two(bests + 2 * blockIdx.x, (u32)(best >> 32), (u32)best, epoch + 1);
    if (blockIdx.x > 0) return;
    ll_gather((u32 *)in, bests, 2 * a.blocks, nullptr, nullptr, 0, epoch + 1);
    best = 0;
#pragma unroll 1
    for (int i = lane; i < a.blocks; i += WARP) {
      uint2 got = *(const uint2 *)((const u32 *)in + 2 * i);
      u64 key = (u64)got.x << 32 | got.y;
      best = key > best ? key : best;
    }
    best = highest(best);
    if (lane == 0) *a.next = *a.next_host = token(best), *a.positions += 1;
  }

  __device__ __forceinline__ static u64 highest(u64 v) {
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) {
      u64 other = __shfl_xor_sync(FULL, v, o);
      v = other > v ? other : v;
    }
    return v;
  }
};

#endif
