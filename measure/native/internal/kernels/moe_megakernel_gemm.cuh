// The GEMMs of the MoE megakernel: eight warps multiply, every eighth stage of an item each, on tensor
// cores with weights as the 16 rows of an mma. Each warp gathers the inputs of its own stages just
// ahead of them, so that no warp waits for inputs that another one needs.

#ifdef STEP_SHAPE

// add accumulates 32 columns of rows g and g+8 to two sums; row g+8 lies `further` bytes behind row g.
__device__ __forceinline__ void add(float sum[4], float more[4], const u8 *w, int further, const bf16 *x) {
  uint4 u = *(const uint4 *)w, q = *(const uint4 *)(w + further), v = *(const uint4 *)x;
  mma(sum, u.x, q.x, u.y, q.y, v.x, v.y);
  mma(more, u.z, q.z, u.w, q.w, v.z, v.w);
}

// multiply_unit is the sum of row g of a unit of 8 rows and 512 columns, of which `left` exist. Rows g and
// g+8 of the mma are alternating pieces of 32 columns of the row, each with inputs in columns of their own.
__device__ __forceinline__ float multiply_unit(const u8 *stage, const bf16 *x, int left, bool whole) {
  int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  stage += place_of(g, 2 * STEP_ROW) + t * 16, x += t * 8 + (g & 1) * 32;
  float sum[4] = {}, more[4] = {};
  if (whole || left >= 2 * STEP_DEPTH) {
#pragma unroll
    for (int u = 0; u < STEP_DEPTH / 32; u++) add(sum, more, stage + u * 128, 64, x + u * 64);
    return (sum[0] + more[0]) + (sum[3] + more[3]);
  }
#pragma unroll 1
  for (int u = 0; u < STEP_DEPTH / 32 && u * 64 < left; u++) {
    bool both = u * 64 + 32 < left;
    uint4 none = make_uint4(0, 0, 0, 0);
    uint4 v = both || g % 2 == 0 ? *(const uint4 *)(x + u * 64) : none;
    uint4 w = *(const uint4 *)(stage + u * 128), q = both ? *(const uint4 *)(stage + 64 + u * 128) : none;
    mma(sum, w.x, q.x, w.y, q.y, v.x, v.y);
    mma(more, w.z, q.z, w.w, q.w, v.z, v.w);
  }
  return (sum[0] + more[0]) + (sum[3] + more[3]);
}

// of_warps adds up the sums that the warps stored for a row.
__device__ __forceinline__ float of_warps(const float *red, int r) {
  float s = 0.f;
#pragma unroll
  for (int w = 0; w < CONSUMERS; w++) s += red[w * RED_PITCH + r];
  return s;
}

// store_scale stores the reciprocal norm of the stream whose sums of squares are given. One warp calls it.
__device__ __forceinline__ void store_scale(float *to, const float *squares, float eps) {
  float ss = 0.f;
#pragma unroll 4
  for (int i = threadIdx.x % WARP; i < StepArgs::hidden / 16; i += WARP) ss += squares[i];
  ss = warp_sum(ss);
  if (threadIdx.x % WARP == 0) *to = rsqrtf(ss / StepArgs::hidden + eps);
  __syncwarp();
}

// add_to_stream adds 16 outputs to the block's part of the residual stream. It sends the result times the
// norm's weights, and the sum of its squares, in all copies. One warp calls it.
__device__ __forceinline__ void add_to_stream(const float *red, float *stream, const bf16 *norm_weights, u64 *packets, u64 *squares, u32 epoch) {
  const int size = StepArgs::hidden / 2 + StepArgs::hidden / 16; // packets of a copy
  int lane = threadIdx.x % WARP, r = lane % 16;
  float y = stream[r] + of_warps(red, r), ss = y * y;
  u32 v = to_16bit(y * gain(to_float(norm_weights[r])));
  u32 beside = __shfl_xor_sync(FULL, v, 1);
  v = lane % 2 ? beside | v << 16 : v | beside << 16;
  ll_store(packets + (lane / 16 * 2 + lane % 2) * size + r / 2, v, epoch);
#pragma unroll
  for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
  if (lane < STREAM_COPIES) ll_store(squares + lane * size, __float_as_uint(ss), epoch);
  __syncwarp(); // Both halves of the warp have read the old stream.
  if (lane < 16) stream[r] = y;
  __syncwarp();
}

// StepGemm adds the GEMMs of the multiplying warps.
struct StepGemm : StepCopy {
  // multiply accumulates this warp's stages of an item to low and high, the sums of rows g and g+8. The
  // item's stages begin at `from` in the ring, and the warp takes every eighth. If shares is not null,
  // the inputs are those of several experts with k columns each, weighted by it. If packets is not null,
  // the warp gathers its inputs there just before it needs them.
  __device__ __forceinline__ void multiply(int from, int stages, int k, float &low, float &high, const u64 *packets, u32 epoch, const float *shares = nullptr) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, each = stages_of(k);
#pragma unroll 1
    for (int c = warp; c < stages; c += CONSUMERS) {
      u32 j = from + c, slot = j % a.stages, phase = j / a.stages & 1;
      int e = shares ? c / each : 0, col = (c - e * each) * STEP_DEPTH, x = e * k + col;
      if (packets && c % (2 * CONSUMERS) < CONSUMERS) {
        int d = c + CONSUMERS, f = d / each, y = f * k + (d - f * each) * STEP_DEPTH; // This is the warp's next stage.
        ll_gather((u32 *)in + x / 2, packets + x / 2, min(k - col, STEP_DEPTH) / 2, (u32 *)in + y / 2, packets + y / 2,
             d < stages ? min(k - (d - f * each) * STEP_DEPTH, STEP_DEPTH) / 2 : 0, epoch);
      }
      const u8 *at = ring + slot * STEP_STAGE + place_of(g) + t * 16;
      const bf16 *in = this->in + x + t * 8;
      float sum[4] = {}, more[4] = {};
      barrier_wait(full + slot, phase);
      if (k % STEP_DEPTH == 0 || k - col >= STEP_DEPTH) {
#pragma unroll
        for (int u = 0; u < STEP_DEPTH / 32; u++) add(sum, more, at + u * 64, 4 * STEP_ROW, in + u * 32);
      } else {
#pragma unroll 1
        for (int u = 0; u < (k - col) / 32; u++) add(sum, more, at + u * 64, 4 * STEP_ROW, in + u * 32);
      }
      arrive_warp(empty + slot);
      float share = shares ? shares[e] : 1.f;
      low += share * (sum[0] + more[0]), high += share * (sum[2] + more[2]);
    }
  }

  // store_sums stores the sums of 16 rows of each warp and waits for all warps.
  __device__ __forceinline__ void store_sums(float *red, float low, float high) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (lane % 4 == 0) red[warp * RED_PITCH + lane / 4] = low, red[warp * RED_PITCH + lane / 4 + 8] = high;
    sync_threads_of(1, STEP_THREADS);
  }

  // gather waits for count packets, an even number, and shares their values with all warps.
  __device__ __forceinline__ void gather(const u64 *from, int count, u32 epoch) const {
    int each = (count + 2 * CONSUMERS - 1) / (2 * CONSUMERS) * 2, at = threadIdx.x / WARP * each;
    ll_gather((u32 *)in + at, from + at, max(0, min(each, count - at)), nullptr, nullptr, 0, epoch);
    sync_threads_of(1, STEP_THREADS);
  }
};

#endif
