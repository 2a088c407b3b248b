// The MoE layer in the MoE megakernel: the router, the choice of experts, their GEMMs, and the norm
// that precedes the router. A block computes the scores of some rows of the router, gathers the scores
// of all, and chooses by itself: the place of an expert is the number of experts before it. Scores and
// the normed stream are sent in several copies, because blocks that poll the same few cache lines of
// the L2 wait for each other.

#ifdef STEP_SHAPE

// StepExperts adds the router, the choice of the experts and their GEMMs.
struct StepExperts : StepAttention {
  // gather_normed gathers the warp's columns of the normed stream, those of every eighth stage. The first
  // warp gathers the sums of squares too.
  __device__ __forceinline__ void gather_normed(const u64 *packets, u32 epoch) const {
    int m = threadIdx.x < WARP ? a.hidden / 16 : 0;
    const u64 *from = copy_of(packets);
#pragma unroll 1
    for (int c = threadIdx.x / WARP; m > 0 || c < stages_of(a.hidden); c += CONSUMERS, m = 0) {
      int col = c * STEP_DEPTH;
      ll_gather((u32 *)(in + col), from + col / 2, max(0, min(a.hidden - col, STEP_DEPTH)) / 2, (u32 *)squares, from + a.hidden / 2, m, epoch);
    }
  }

  // route computes and sends the scores of this block's rows of the router. They lack the factor of the
  // norm, which does not change their order.
  __device__ __forceinline__ void route(float *red, const StepLayer &w, u32 epoch) const {
#pragma unroll 1
    for (int e = blockIdx.x; e < a.experts; e += a.blocks) {
      float s = 0.f;
#pragma unroll 1
      for (int i = threadIdx.x * 8; i < a.hidden; i += STEP_THREADS * 8)
        s += dot8(load8(e == blockIdx.x ? row + i : w.router + (u64)e * a.hidden + i), *(const uint4 *)(in + i));
      s = warp_sum(s);
      if (threadIdx.x % WARP == 0) red[threadIdx.x / WARP * RED_PITCH] = s;
      sync_threads_of(1, STEP_THREADS);
      if (threadIdx.x < SCORE_COPIES) ll_store(scores + threadIdx.x * a.experts + e, __float_as_uint(of_warps(red, 0)), epoch);
      red = other_buffer(red);
    }
  }

  // choose gathers the scores and finds the rank of each expert: the higher score first, the lower index
  // among equals. All warps arrive at `decided`, the copying ones too. So no warp is a layer behind, and
  // whoever chooses has waited for all that read the choice of two layers before, which lay in the same
  // place.
  __device__ __forceinline__ void choose(int l, u32 epoch) const {
    int e = threadIdx.x, padded = (a.experts + 3) / 4 * 4;
    u32 mine = 0;
    if (e < a.experts) {
      const u64 *at = scores + blockIdx.x % SCORE_COPIES * a.experts + e;
      u32 v = ll_wait(at, ll_load(at), epoch);
      mine = v ^ (v >> 31 ? 0xffffffffu : 0x80000000u);
      mine += mine == 0; // Key 0 stands for no expert.
    }
    if (e < padded) keys[e] = mine;
    sync_threads_of(1, STEP_THREADS);
    bool pairs = a.experts <= STEP_THREADS / 2; // Two threads rank one expert.
    int half = pairs ? (padded / 4 + 1) / 2 * 4 : padded;
    int to = pairs ? e % 2 ? padded : half : padded, from = pairs && e % 2 ? half : 0;
    if (pairs) e /= 2, mine = e < a.experts ? keys[e] : 0;
    int rank = 0;
    u32 before = mine - 1; // An expert of lower index with an equal key ranks before it.
#pragma unroll 4
    for (int f = from; f < to; f += 4) {
      uint4 k = *(const uint4 *)(keys + f);
      u32 than = f <= e ? before : mine;
      rank += (k.x > than) + (k.y > than) + (k.z > than) + (k.w > than);
    }
    if (e >= from && e < to) { // The four keys of its own group were compared as if they preceded it.
      uint4 k = *(const uint4 *)(keys + e / 4 * 4);
      rank -= 1 + (e % 4 < 1 && k.y == mine) + (e % 4 < 2 && k.z == mine) + (e % 4 < 3 && k.w == mine);
    }
    if (pairs) rank += __shfl_xor_sync(FULL, rank, 1);
    if (e < a.experts && rank < a.top) chosen[(l & 1) * WARP + rank] = e, score[rank] = value(mine);
    arrive_warp(decided);
  }

  // value is the score that a key was made of.
  __device__ __forceinline__ static float value(u32 key) { return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu)); }

  // weigh_experts computes the weights of the chosen experts by softmax. One warp calls it.
  __device__ __forceinline__ void weigh_experts() const {
    int lane = threadIdx.x % WARP;
    float peak = score[0], scale = scaling[1], sum = 0.f, w = lane < a.top ? __expf((score[lane] - peak) * scale) : 0.f;
    if (!a.normalized)
#pragma unroll 1
      for (int e = lane; e < a.experts; e += WARP) sum += __expf((value(keys[e]) - peak) * scale);
    sum = warp_sum(a.normalized ? w : sum);
    if (lane < a.top) share[lane] = w / sum;
  }

  // finish_up applies the activation to 8 values of an expert and sends them. One warp calls it.
  __device__ __forceinline__ void finish_up(const float *red, float scale, u64 *packets, u32 epoch) const {
    int lane = threadIdx.x % WARP, r = lane % 8;
    u32 v = to_16bit(activate(of_warps(red, r) * scale) * (of_warps(red, r + 8) * scale));
    v |= __shfl_xor_sync(FULL, v, 1) << 16;
    if (lane < 8 && lane % 2 == 0) ll_store(packets + lane / 2, v, epoch);
  }

  // store_stream stores 16 outputs for the kernel that follows. One warp calls it.
  __device__ __forceinline__ void store_stream(int l, int i) const {
    int r = threadIdx.x % 16, o = item(i) * 16 + r;
    float y = stream[i * 16 + r], ss = y * y;
#pragma unroll
    for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
    a.x[o] = y, a.h[o] = to_16bit(y * gain(to_float(norm_weights_of(l, i, 1)[r])));
    a.squares[item(i)] = ss;
  }

  // experts computes gate_up and down of the chosen experts and adds them to the stream.
  __device__ __forceinline__ void experts(float *&buffer, int l, int first, u32 epoch) const {
    int warp = threadIdx.x / WARP, each = stages_of(a.hidden), stages = a.top * stages_of(a.inner);
#pragma unroll 1
    for (int i = 0; i < items_of_block(a.top * (a.inner / 8)); i++, buffer = other_buffer(buffer)) {
      float low = 0.f, high = 0.f;
      multiply(first + i * each, each, a.hidden, low, high, nullptr, epoch);
      store_sums(buffer, low, high);
      if (warp == i % CONSUMERS) finish_up(buffer, scaling[1], acts + item(i) * 4, epoch);
    }
    first += gate_up_stages();
#pragma unroll 1
    for (int i = 0; i < items_of_block(a.hidden / 16); i++, buffer = other_buffer(buffer)) {
      float low = 0.f, high = 0.f;
      multiply(first + i * stages, stages, a.inner, low, high, i ? nullptr : acts, epoch, share);
      store_sums(buffer, low, high);
      if (warp == i % CONSUMERS) {
        add_to_stream(buffer, stream + i * 16, norm_weights_of(l, i, 1), after + item(i) * 8, after + a.hidden / 2 + item(i), epoch);
        if (l + 1 == a.layers && !a.head) store_stream(l, i);
      }
    }
  }
};

#endif
