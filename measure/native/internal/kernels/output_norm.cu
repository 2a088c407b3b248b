// Norms of the output of a block before the residual sum (Gemma 2, arXiv:2408.00118).

#if OUTPUT_NORM

// norm_residual adds the norm of y to the stream x. In a decode step it also prepares the next GEMM:
// xn = x times the weights of the next norm, and the sum of squares of each 16 values. One block does
// one row.
//
//   y, x, xn[rows][hidden], squares[rows][hidden/16]
extern "C" __global__ void norm_residual(const float *y, const bf16 *w, float *x, int hidden, float eps, bf16 *xn, float *squares,
                                         const bf16 *norm) {
  __shared__ float part[WARP];
  let_next_start();
  after_previous();
  u64 row = (u64)blockIdx.x * hidden;
  float ss = 0.f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) ss += y[row + i] * y[row + i];
  ss = warp_sum(ss);
  if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = ss;
  __syncthreads();
  ss = 0.f;
  for (int i = 0; i < blockDim.x / WARP; i++) ss += part[i];
  float r = rsqrtf(ss / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float v = x[row + i] + y[row + i] * r * gain(to_float(w[i]));
    x[row + i] = v;
    if (xn == nullptr) continue;
    xn[row + i] = to_16bit(v * gain(to_float(norm[i])));
    float s = v * v;
#pragma unroll
    for (int o = 8; o > 0; o /= 2) s += __shfl_xor_sync(__activemask(), s, o);
    if (i % 16 == 0) squares[(row + i) / 16] = s;
  }
}

#endif
