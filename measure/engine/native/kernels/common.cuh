// What all kernels share: types, conversions, reductions, and the few
// instructions that CUDA C++ has no words for. The host compiles this file and
// the kernels as one program, with these defined:
//
//   HEAD_DIM  values of one attention head, a multiple of 64
//   GROUP     query heads that share one key and value head
//   QK_NORM   1 where queries and keys have an RMSNorm of their own
//   QKV_BIAS  1 where the q, k and v projections have a bias
//
// Shapes are written [rows][columns], the last dimension dense. bf16 values
// travel as their 16 bits; sums are float32.

typedef unsigned char u8;
typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define WARP 32
#define FULL 0xffffffffu
#define LOG2E 1.4426950408889634f
#define INFINITY __int_as_float(0x7f800000)

__device__ __forceinline__ float low(u32 p) { return __uint_as_float(p << 16); }
__device__ __forceinline__ float high(u32 p) { return __uint_as_float(p & 0xffff0000u); }
__device__ __forceinline__ float wide(bf16 v) { return __uint_as_float((u32)v << 16); }

// pack rounds two floats to nearest even, a to the low half.
__device__ __forceinline__ u32 pack(float a, float b) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}

__device__ __forceinline__ bf16 narrow(float a) { return (bf16)(pack(a, 0.f) & 0xffff); }

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = WARP / 2; o > 0; o /= 2) v += __shfl_xor_sync(FULL, v, o);
  return v;
}

// after_previous waits for the kernel ahead in the stream, when this one was
// started early, and forgets what the first-level cache holds from before.
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  __threadfence();
#endif
}

// let_next_start allows the kernel behind to start; its after_previous still
// waits for the end of this one.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// mma adds the product of a 16x16 tile of a and a 16x8 tile of b to c. Lane
// 4g+t holds of a: rows g and g+8, columns 2t, 2t+1, 2t+8, 2t+9; of b: those
// rows of column g; of c: rows g and g+8, columns 2t, 2t+1 (PTX ISA,
// mma.m16n8k16).
__device__ __forceinline__ void mma(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// HEAD_LANE is how many values of a head each lane of a warp holds: those of
// index lane + 32*i.
#define HEAD_LANE (HEAD_DIM / WARP)

// angles are the sines and cosines of a position, of a lane's pairs of values,
// which lie half a head apart.
struct Angles {
  float sin[HEAD_LANE / 2], cos[HEAD_LANE / 2];
};

__device__ __forceinline__ Angles angles(const float *frequencies, int pos) {
  Angles a;
#pragma unroll
  for (int i = 0; i < HEAD_LANE / 2; i++) sincosf((float)pos * frequencies[threadIdx.x % WARP + WARP * i], &a.sin[i], &a.cos[i]);
  return a;
}

// prepare_head does what is done to one head of q or k between projection and
// attention, after the bias: RMSNorm where the family has it, and rotation. A
// warp holds the head.
__device__ __forceinline__ void prepare_head(float v[HEAD_LANE], const bf16 *norm, float eps, const Angles &a) {
#if QK_NORM
  float ss = 0.f;
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) ss += v[i] * v[i];
  float r = rsqrtf(warp_sum(ss) / HEAD_DIM + eps);
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) v[i] *= r * wide(norm[threadIdx.x % WARP + WARP * i]);
#endif
#pragma unroll
  for (int i = 0; i < HEAD_LANE / 2; i++) {
    float x = v[i], y = v[i + HEAD_LANE / 2];
    v[i] = x * a.cos[i] - y * a.sin[i];
    v[i + HEAD_LANE / 2] = y * a.cos[i] + x * a.sin[i];
  }
}
