// Quantization when a model is loaded, and dequantization for cuBLASLt, which multiplies 16 bits
// (quantized.cuh has the formats).

#if QUANTIZED == 8

// quantize rounds the rows of a matrix to e4m3. The scale of a row makes its greatest value 448,
// e4m3's greatest, or little less: scales are rounded up to four significant bits, as many as weights
// have, so that dequantize is exact in bf16. A GPU that has k inputs of each row, from first on, has
// the scale of the whole row. One block does one row.
//
//   from[rows][width] -> to[rows][k], scales[rows]
extern "C" __global__ void quantize(const bf16 *from, u8 *to, float *scales, int width, int first, int k) {
  __shared__ float part[WARP];
  u64 row = blockIdx.x;
  const bf16 *in = from + row * width;
  float top = 0.f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) top = fmaxf(top, fabsf(to_float(in[i])));
#pragma unroll
  for (int o = WARP / 2; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(FULL, top, o));
  if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = top;
  __syncthreads();
  top = 0.f;
  for (int i = 0; i < blockDim.x / WARP; i++) top = fmaxf(top, part[i]);
  float scale = top > 0.f ? __uint_as_float((__float_as_uint(top / 448.f) + 0xfffff) & ~0xfffffu) : 1.f;
  if (threadIdx.x == 0) scales[row] = scale;
  in += first;
  for (int e = threadIdx.x; e < k / 8; e += blockDim.x) {
    uint2 o = {0, 0};
    for (int i = 0; i < 8; i++) {
      u32 v = round_e4m3(to_float(in[e * 8 + i]) / scale) << i % 4 * 8;
      (i < 4 ? o.x : o.y) |= v;
    }
    *(uint2 *)(to + row * k + eight_of(e) * 8) = make_uint2(pack_e4m3(o.x), pack_e4m3(o.y));
  }
}

// arrange reorders e4m3 weights from the order of their inputs to that of quantized.cuh.
extern "C" __global__ void arrange(const u8 *from, u8 *to, u64 eights) {
  for (u64 e = blockIdx.x * (u64)blockDim.x + threadIdx.x; e < eights; e += (u64)gridDim.x * blockDim.x) {
    uint2 v = *(const uint2 *)(from + e * 8);
    *(uint2 *)(to + eight_of(e) * 8) = make_uint2(pack_e4m3(v.x), pack_e4m3(v.y));
  }
}

// dequantize computes the weights in 16 bits, multiplied by their scales and rounded.
//
//   w[n][k] -> out[n][k]
extern "C" __global__ void dequantize(const u8 *w, const float *scales, const u8 *, bf16 *out, int n, int k) {
  u64 eights = (u64)n * (k / 8);
  for (u64 e = blockIdx.x * (u64)blockDim.x + threadIdx.x; e < eights; e += (u64)gridDim.x * blockDim.x) {
    uint4 v = dequantize_eight(w + eight_of(e) * 8), o;
    float s = scales[e / (k / 8)];
    const u32 *vs = &v.x;
    u32 *os = &o.x;
#pragma unroll
    for (int i = 0; i < 4; i++) os[i] = pack(low(vs[i]) * s, high(vs[i]) * s);
    *(uint4 *)(out + e * 8) = o;
  }
}

#elif QUANTIZED == 4

// half_warp_least is the minimum over the 16 lanes that share a row.
__device__ __forceinline__ float half_warp_least(float v) {
#pragma unroll
  for (int o = 8; o > 0; o /= 2) v = fminf(v, __shfl_xor_sync(FULL, v, o));
  return v;
}

// quantize rounds the groups of a matrix. The range of a group's values, extended to 0, is cut into 15
// steps, and the zero point is the step of 0. A warp has one group of two rows; the rows are some of
// n, from first on, whose scales lie together.
//
//   from[rows][k] -> to[rows][k/2], scales[k/128][n], zeros[k/128][n/2]
extern "C" __global__ void quantize(const bf16 *from, u8 *to, bf16 *scales, u8 *zeros, int rows, int k, int n, int first) {
  int lane = threadIdx.x % WARP, groups = k / GROUP_INPUTS;
  u64 step = (u64)gridDim.x * (blockDim.x / WARP), all = (u64)(rows / 2) * groups;
  for (u64 job = blockIdx.x * (u64)(blockDim.x / WARP) + threadIdx.x / WARP; job < all; job += step) {
    u64 row = job / groups * 2 + lane / 16;
    int group = job % groups, e = group * (GROUP_INPUTS / 8) + lane % 16;
    const bf16 *in = from + row * k + e * 8;
    float least = 0.f, most = 0.f;
    for (int i = 0; i < 8; i++) least = fminf(least, to_float(in[i])), most = fmaxf(most, to_float(in[i]));
    least = half_warp_least(least), most = -half_warp_least(-most);
    bf16 rounded = to_16bit((most - least) / 15.f);
    float scale = to_float(rounded);
    if (scale == 0.f) rounded = (bf16)(ONE16 & 0xffff), scale = 1.f;
    float zero = fminf(rintf(-least / scale), 15.f);
    u32 o = 0;
    for (int i = 0; i < 8; i++) {
      float q = fminf(fmaxf(rintf(to_float(in[i]) / scale) + zero, 0.f), 15.f);
      o |= (u32)q << (i % 2 * 16 + i / 2 * 4);
    }
    *(u32 *)(to + row * (k / 2) + eight_of(e) * 4) = pack_fours(o);
    u32 upper = __shfl_xor_sync(FULL, (u32)zero, 16);
    u64 at = (u64)group * n + first + row;
    if (lane % 16 == 0) scales[at] = rounded;
    if (lane == 0) zeros[at / 2] = (u8)((u32)zero | upper << 4);
  }
}

// dequantize computes the weights in 16 bits, multiplied by their scales and rounded.
//
//   w[n][k/2] -> out[n][k]
extern "C" __global__ void dequantize(const u8 *w, const bf16 *scales, const u8 *zeros, bf16 *out, int n, int k) {
  u64 eights = (u64)n * (k / 8);
  for (u64 e = blockIdx.x * (u64)blockDim.x + threadIdx.x; e < eights; e += (u64)gridDim.x * blockDim.x) {
    u64 row = e / (k / 8), at = e % (k / 8) / (GROUP_INPUTS / 8) * n + row;
    float s = to_float(scales[at]);
    u32 v[4];
    pairs(*(const u32 *)(w + eight_of(e) * 4), minus_zero(zeros[at / 2] >> row % 2 * 4 & 15), v);
    uint4 o;
    u32 *os = &o.x;
#pragma unroll
    for (int i = 0; i < 4; i++) os[i] = pack(low(v[i]) * s, high(v[i]) * s);
    *(uint4 *)(out + e * 8) = o;
  }
}

#endif
