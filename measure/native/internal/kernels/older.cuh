// GPUs before compute capability 8.0 have no asynchronous copies, no barriers in shared memory, and no
// mma of 16 columns. If the host defines OLDER, the compute capability times ten, the functions of
// ptx.cuh are written in C++ here. So all kernels are the same there, and their copies are complete
// when they are started. These GPUs have no bf16 tensor cores, and the host refuses bf16.

#ifdef OLDER

__device__ __forceinline__ void copy16(u32 to, const void *from) { put_shared(to, __ldcg((const uint4 *)from)); }
__device__ __forceinline__ void copy16_once(u32 to, const void *from, u64) { copy16(to, from); }
__device__ __forceinline__ void copy4(u32 to, const void *from) { put_shared(to, __ldcg((const u32 *)from)); }
__device__ __forceinline__ void copy16_or_zero(u32 to, const void *from, int bytes) {
  put_shared(to, bytes ? __ldcg((const uint4 *)from) : make_uint4(0, 0, 0, 0));
}
__device__ __forceinline__ u64 evict_first() { return 0; }
__device__ __forceinline__ void commit() {}
template <int N>
__device__ __forceinline__ void wait_copies() {}

// A barrier has the arrivals since it was initialized in the low half, and the arrivals of a phase in
// the high half.
__device__ __forceinline__ void barrier_init(u64 *b, u32 count) { *b = (u64)count << 32; }

__device__ __forceinline__ void barrier_arrive(u64 *b) {
  __threadfence_block();
  atomicAdd((u32 *)b, 1u);
}

__device__ __forceinline__ void barrier_arrive_copied(u64 *b) { barrier_arrive(b); }

__device__ __forceinline__ void barrier_wait(u64 *b, u32 parity) {
  const volatile u32 *at = (const volatile u32 *)b;
  u32 count = at[1];
  while ((at[0] / count & 1) == parity) look_again();
  __threadfence_block();
}

#if OLDER >= 75

__device__ __forceinline__ void mma(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  mma_half(c, a0, a1, b0);
  mma_half(c, a2, a3, b1);
}

#else

// This is mma by CUDA cores, because the tensor cores of compute capability 7.0 have another shape.
// Each of the four lanes that have a row of a and a column of b gets the operands of its results: rows
// g and g+8 of a, columns 2t and 2t+1 of b. It is not inlined, because that takes the compiler
// minutes.
__device__ __noinline__ float4 multiply_tiles(u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  int lane = threadIdx.x % 32, row = lane & ~3, column = lane % 4 * 8;
  float4 c = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    u32 p0 = __shfl_sync(0xffffffffu, a0, row + i), p1 = __shfl_sync(0xffffffffu, a2, row + i);
    u32 q0 = __shfl_sync(0xffffffffu, a1, row + i), q1 = __shfl_sync(0xffffffffu, a3, row + i);
    u32 x0 = __shfl_sync(0xffffffffu, b0, column + i), x1 = __shfl_sync(0xffffffffu, b1, column + i);
    u32 y0 = __shfl_sync(0xffffffffu, b0, column + 4 + i), y1 = __shfl_sync(0xffffffffu, b1, column + 4 + i);
    c.x += low(p0) * low(x0) + high(p0) * high(x0) + low(p1) * low(x1) + high(p1) * high(x1);
    c.y += low(p0) * low(y0) + high(p0) * high(y0) + low(p1) * low(y1) + high(p1) * high(y1);
    c.z += low(q0) * low(x0) + high(q0) * high(x0) + low(q1) * low(x1) + high(q1) * high(x1);
    c.w += low(q0) * low(y0) + high(q0) * high(y0) + low(q1) * low(y1) + high(q1) * high(y1);
  }
  return c;
}

__device__ __forceinline__ void mma(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  float4 v = multiply_tiles(a0, a1, a2, a3, b0, b1);
  c[0] += v.x, c[1] += v.y, c[2] += v.z, c[3] += v.w;
}

// ldmatrix and ldmatrix_transposed replace those of ptx.cuh.
__device__ __forceinline__ void ldmatrix(u32 r[4], u32 at) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i++) r[i] = get_shared(__shfl_sync(0xffffffffu, at, 8 * i + lane / 4) + lane % 4 * 4);
}

__device__ __forceinline__ void ldmatrix_transposed(u32 r[4], u32 at) {
  int lane = threadIdx.x % 32, shift = lane / 4 % 2 * 16, word = lane / 8 * 4; // the bits of column g
#pragma unroll
  for (int i = 0; i < 4; i++) {
    u32 x = get_shared(__shfl_sync(0xffffffffu, at, 8 * i + lane % 4 * 2) + word);
    u32 y = get_shared(__shfl_sync(0xffffffffu, at, 8 * i + lane % 4 * 2 + 1) + word);
    r[i] = (x >> shift & 0xffff) | (y >> shift & 0xffff) << 16;
  }
}

#endif

#endif // OLDER
