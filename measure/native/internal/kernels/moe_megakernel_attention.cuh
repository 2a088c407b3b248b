// Attention in the MoE megakernel, from qkv_proj to o_proj, with the arithmetic of
// attention_decode.cu. Block b has part b/kv_heads of the context of key head b%kv_heads. Tiles of the
// cache are copied to the memory of the prefetched stages as soon as these are used. One warp norms and
// rotates a query for all of its block. A block sends its partial result to the blocks of its head;
// each of them merges a slice of the head's output and sends it to all blocks.

#ifdef STEP_SHAPE

// StepAttention adds qkv_proj, attention and o_proj.
struct StepAttention : StepGemm {
  // A Context is the part of a head that a block attends to.
  struct Context {
    int head, part, slot, count;
    const float *angles; // the frequencies whose sines and cosines are in sh
  };
  __device__ __forceinline__ bool attends(const Context &c) const { return c.part < a.parts; }
  __device__ __forceinline__ Ring tiles_of(const StepLayer &w, const Context &c) const {
    u64 cache = (u64)c.head * w.capacity * HEAD_DIM;
    return Ring(prefetch + threadIdx.x / WARP % DEC_WARPS * STEP_TILES, w.keys + cache, w.values + cache);
  }

  // begin_context starts the copies of the keys and values that the warp attends to, once the memory is free.
  __device__ __forceinline__ void begin_context(const StepLayer &w, int l, Context &c) const {
    wait_copies<0>(); // fetch started these copies.
    if (!attends(c)) return;
    int warp = threadIdx.x / WARP, past = __ldcg(a.positions);
    c.slot = past, c.count = past + 1;
#if SLIDING
    c.count = min(c.count, (int)w.capacity), c.slot = past % (int)w.capacity;
#endif
    if (warp - STEP_CONTEXT >= 0 && warp - STEP_CONTEXT < DEC_WARPS) {
      if (prefetches() > 0) barrier_wait(consumed, l & 1);
      begin_tiles<true, STEP_VALUES>(tiles_of(w, c), c.part * DEC_WARPS + warp - STEP_CONTEXT, a.parts * DEC_WARPS, c.count);
    }
    if (w.frequencies != c.angles)
#pragma unroll 1
      for (int i = threadIdx.x; i < HEAD_DIM / 2; i += STEP_THREADS) sincosf((float)past * w.frequencies[i], &sh.sin[i], &sh.cos[i]);
    c.angles = w.frequencies;
  }

  // qkv_projection computes qkv_proj and sends its outputs.
  __device__ __forceinline__ void qkv_projection(const StepLayer &w, int l, Context &c, int first, u32 epoch) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = each_unit(), n = qkv_stages(), prefetched = prefetches();
    u32 have = 0; // a bit for each stage of columns whose inputs are gathered
    const u64 *from = copy_of(after);
    bf16 *in = this->in + (l ? warp / min(CONSUMERS, each & -each) * a.hidden : 0); // Each warp that gathers a column has its own copy.
    if (l == 0 && threadIdx.x < WARP) store_scale(scaling, squares, a.eps);
    bool begun = false;
#pragma unroll 1
    for (int i = warp; i < n || i == warp; i += CONSUMERS) {
      if (i < n) {
        bool early = i < prefetched;
        u32 j = first + i - prefetched, slot = early ? 0 : j % a.stages, phase = early ? l : j / a.stages;
        const u8 *at = early ? prefetch + i * STEP_STAGE : ring + slot * STEP_STAGE;
        int part = i % each, col = part * 2 * STEP_DEPTH;
        if (l && (part >= 32 || !(have >> part & 1))) {
          bool all = warp == min(CONSUMERS, n) - 1 && !have; // The last warp has less of qkv than the first.
          ll_gather((u32 *)(in + col), from + col / 2, min(a.hidden - col, 2 * STEP_DEPTH) / 2, (u32 *)squares, from + a.hidden / 2, all ? a.hidden / 16 : 0, epoch - 1);
          have |= 1u << part % 32;
        }
        barrier_wait(early ? prefetch_full + i : full + slot, phase & 1);
        float sum = multiply_unit(at, in + col, a.hidden - col, a.hidden % (2 * STEP_DEPTH) == 0);
        if (lane % 4 == 0) sums[i * 8 + lane / 4] = sum;
        if (!early || attends(c)) arrive_warp(early ? consumed : empty + slot); // A block without attention waits for nobody.
      }
      if (!begun && i + CONSUMERS >= prefetched) begin_context(w, l, c), begun = true;
    }
    if (l && warp == min(CONSUMERS, n) - 1) store_scale(scaling, squares, a.eps);
    sync_threads_of(1, STEP_THREADS);
#pragma unroll 1
    for (int i = threadIdx.x; i < units() * 8; i += STEP_THREADS) {
      float y = 0.f;
#pragma unroll 4
      for (int k = 0; k < each; k++) y += sums[(i / 8 * each + k) * 8 + i % 8];
      int at = (back() + i / 8 * a.blocks) * 8 + i % 8, head = at / HEAD_DIM, heads = a.kv_heads; // head counts queries, then keys, then values.
      int of = head < GROUP * heads ? head / GROUP * (GROUP + 2) + head % GROUP
               : head < (GROUP + 1) * heads ? (head - GROUP * heads) * (GROUP + 2) + GROUP : (head - (GROUP + 1) * heads) * (GROUP + 2) + GROUP + 1;
      ll_store(this->heads + of * HEAD_DIM + at % HEAD_DIM, __float_as_uint(y * *scaling), epoch);
    }
  }

  // peaks is how many maxima and sums a part receives: those of the queries that its slice belongs to.
  __device__ __forceinline__ int peaks() const { return max(1, (1 << a.share) / HEAD_DIM) * a.parts; }
  __device__ __forceinline__ u64 *partials_of(int head, int part) const { return partials + (head * a.parts + part) * (DEC_VALUES + 2 * peaks()); }

  // prepared is [2][GROUP][QUERY] in shared memory behind the gathered values: the queries rounded to 16
  // bits, and the rounding errors.
  static constexpr int QUERY = HEAD_DIM + 8;
  __device__ __forceinline__ bf16 *prepared() const { return in + 2 * (GROUP + 2) * HEAD_DIM; }

  // prepare applies bias, norm and rotation to one of a head's queries, to its key (GROUP) or its value
  // (GROUP+1), and stores it; a query is multiplied by the scale of the scores. One warp calls it.
  __device__ __forceinline__ void prepare(const StepLayer &w, const Context &c, int of) const {
    int lane = threadIdx.x % WARP;
    const float *raw = (const float *)in + of * HEAD_DIM + lane;
    float v[HEAD_LANE];
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) v[i] = raw[WARP * i];
#if QKV_BIAS
    int row = of < GROUP ? c.head * GROUP + of : of * a.kv_heads + c.head;
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) v[i] += to_float(w.bias[row * HEAD_DIM + lane + WARP * i]);
#endif
    if (of <= GROUP) {
      Angles angles;
#pragma unroll
      for (int i = 0; i < HEAD_LANE / 2; i++) angles.sin[i] = sh.sin[lane + WARP * i], angles.cos[i] = sh.cos[lane + WARP * i];
      prepare_head(v, norms + (of == GROUP ? HEAD_DIM : 0), a.eps, angles);
    }
    if (of >= GROUP) {
      bf16 *cache = (of == GROUP ? w.keys : w.values) + ((u64)c.head * w.capacity + c.slot) * HEAD_DIM;
#pragma unroll
      for (int i = 0; i < HEAD_LANE; i++) cache[lane + WARP * i] = sh.fresh[of - GROUP][lane + WARP * i] = to_16bit(v[i]);
      return;
    }
    bf16 *to = prepared() + of * QUERY + lane;
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) {
      float x = v[i] * (a.scale * LOG2E);
      bf16 top = to_16bit(x);
      to[WARP * i] = top, to[GROUP * QUERY + WARP * i] = to_16bit(x - to_float(top));
    }
  }

  // attend computes attention over the block's part of the context and sends the result.
  __device__ __forceinline__ void attend(const StepLayer &w, const Context &c, u32 epoch) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, step = a.parts * DEC_WARPS, first = c.part * DEC_WARPS + warp - STEP_CONTEXT;
    int n = c.slot / 16 % step / DEC_WARPS == c.part ? GROUP + 2 : GROUP;
    const u64 *from = heads + (c.head * (GROUP + 2) + warp) * HEAD_DIM;
    u32 *raw = (u32 *)in + warp * HEAD_DIM;
    ll_gather(raw, from, warp < n ? HEAD_DIM : 0, raw + CONSUMERS * HEAD_DIM, from + CONSUMERS * HEAD_DIM, warp + CONSUMERS < n ? HEAD_DIM : 0, epoch);
#pragma unroll 1
    for (int of = warp; of < n; of += CONSUMERS) prepare(w, c, of);
    sync_threads_of(1, STEP_THREADS);
    if (warp - STEP_CONTEXT >= 0 && warp - STEP_CONTEXT < DEC_WARPS) {
      Ring ring = tiles_of(w, c);
      Queries queries;
      const bf16 *from = prepared() + min(lane / 4, GROUP - 1) * QUERY + lane % 4 * 2;
#pragma unroll
      for (int p = 0; p < DEC_PIECES; p++) queries.top[p] = *(const u32 *)(from + 8 * p), queries.rest[p] = *(const u32 *)(from + GROUP * QUERY + 8 * p);
      PartialAttention m = {-INFINITY, 0.f, {}};
      attend_tiles<true, STEP_VALUES>(m, queries, ring, sh, first, step, c.slot, c.count);
      wait_copies<0>();
      __syncwarp();
      store_partial(m, (float *)ring.at, sh.stats[warp % DEC_WARPS]);
      before_bulk();
    }
    sync_threads_of(1, STEP_THREADS);
    send_partial(c, epoch);
    merge_partials(c, epoch);
  }

  // send_partial sends the merged result of the block's warps to the blocks that merge its head.
  __device__ __forceinline__ void send_partial(const Context &c, u32 epoch) const {
    int share = 1 << a.share;
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < DEC_VALUES; i += STEP_THREADS * 4) {
      int g = i / HEAD_DIM;
      float m = -INFINITY, l = 0.f;
      float4 o = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int w = 0; w < DEC_WARPS; w++) m = fmaxf(m, sh.stats[w][g].x);
#pragma unroll
      for (int w = 0; w < DEC_WARPS; w++) {
        float2 s = sh.stats[w][g];
        float4 v = *(const float4 *)(prefetch + w * STEP_TILES + (g * DEC_PITCH + i % HEAD_DIM) * 4);
        float f = weight_of(s.x, m);
        o.x += f * v.x, o.y += f * v.y, o.z += f * v.z, o.w += f * v.w, l += f * s.y;
      }
      u64 *to = partials_of(c.head, i >> a.share), *at = to + (c.part << a.share) + (i & share - 1);
      ll_store_two(at, __float_as_uint(o.x), __float_as_uint(o.y), epoch), ll_store_two(at + 2, __float_as_uint(o.z), __float_as_uint(o.w), epoch);
      if (i % min(share, HEAD_DIM) == 0)
        ll_store_two(to + DEC_VALUES + ((i & share - 1) / HEAD_DIM * a.parts + c.part) * 2, __float_as_uint(m), __float_as_uint(l), epoch);
    }
  }

  // merge_partials merges the block's slice of its head's output from the results of all parts, and sends
  // it to all blocks.
  __device__ __forceinline__ void merge_partials(const Context &c, u32 epoch) const {
    int share = 1 << a.share, parts = a.parts;
    const float *got = (const float *)in;
    gather(partials_of(c.head, c.part), DEC_VALUES + 2 * peaks(), epoch);
#pragma unroll 1
    for (int i = threadIdx.x / 4; i - (int)threadIdx.x % WARP / 4 < share; i += STEP_THREADS / 4) { // Four threads compute one value.
      int v = min(i, share - 1), quarter = threadIdx.x % 4;
      const float2 *stats = (const float2 *)(got + DEC_VALUES) + v / HEAD_DIM * parts;
      float m = -INFINITY, o = 0.f, sum = 0.f;
#pragma unroll 4
      for (int s = quarter; s < parts; s += 4) m = fmaxf(m, stats[s].x);
      m = fmaxf(m, __shfl_xor_sync(FULL, m, 1)), m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
#pragma unroll 4
      for (int s = quarter; s < parts; s += 4) {
        float f = weight_of(stats[s].x, m);
        o += f * got[(s << a.share) + v], sum += f * stats[s].y;
      }
      o += __shfl_xor_sync(FULL, o, 1), sum += __shfl_xor_sync(FULL, sum, 1);
      o += __shfl_xor_sync(FULL, o, 2), sum += __shfl_xor_sync(FULL, sum, 2);
      u32 y = to_16bit(o / sum);
      y |= __shfl_xor_sync(FULL, y, 4) << 16;
      if (i < share && i % 2 == 0 && quarter == 0) ll_store(att + (c.head * DEC_VALUES + (c.part << a.share) + i) / 2, y, epoch);
    }
    sync_threads_of(1, STEP_THREADS);
  }

  // output_projection computes o_proj and adds it to the stream.
  __device__ __forceinline__ void output_projection(float *&buffer, int l, int first, u32 epoch) const {
    int warp = threadIdx.x / WARP;
    if (items_of_block(a.hidden / 16)) gather(att, a.width / 2, epoch);
#pragma unroll 1
    for (int i = 0; i < items_of_block(a.hidden / 16); i++, buffer = other_buffer(buffer)) {
      float low = 0.f, high = 0.f;
      multiply(first + i * stages_of(a.width), stages_of(a.width), a.width, low, high, nullptr, epoch);
      store_sums(buffer, low, high);
      if (warp == i % CONSUMERS) add_to_stream(buffer, stream + i * 16, norm_weights_of(l, i, 0), ended + item(i) * 8, ended + a.hidden / 2 + item(i), epoch);
    }
  }
};

#endif
