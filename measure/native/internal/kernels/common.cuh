// Functions that all kernels share: conversions, reductions, and the preparation of a head. The host
// compiles ptx.cuh, this file and the kernels as one program, with these defines:
//
//   HEAD_DIM  values of one attention head, a multiple of 64
//   GROUP     query heads that share one key and value head
//   QK_NORM   1 if queries and keys have an RMSNorm
//   QKV_BIAS  1 if the q, k and v projections have a bias
//   RANKS     GPUs that share the model; 1 if it is not defined
//   FP16      1 if 16-bit values are fp16; they are bf16 if it is not defined
//
// and with these if the model or the workload has it:
//
//   NORM_OFFSET 1       norms multiply by 1 plus their weights
//   GELU 1              the activation is GELU by tanh, not SiLU
//   OUTPUT_NORM 1          the output of a block is normed before the residual sum
//   SLIDING 1           the context is longer than the window of some layers
//   QUANTIZED n         weights of the layers' GEMMs have n bits (quantized.cuh)
//   EMBED_SCALE x       the embedding is multiplied by x
//   ATT_SOFTCAP x       attention scores are capped to (-x, x) by tanh
//   LOGIT_SOFTCAP x     logits are capped in the same way
//
// Shapes are written [rows][columns], with the last dimension dense; sums are float32.

#ifndef RANKS
#define RANKS 1
#endif
#ifndef SLIDING
#define SLIDING 0
#endif

#define WARP 32
#define FULL 0xffffffffu
#define LOG2E 1.4426950408889634f
#define INFINITY __int_as_float(0x7f800000)

// ll_store_two stores two packets side by side, the first at an even place.
__device__ __forceinline__ void ll_store_two(u64 *at, u32 v, u32 w, u32 epoch) { ll_store_pair(at, (u64)epoch << 32 | v, (u64)epoch << 32 | w); }

// waited reports whether more than limit nanoseconds have passed since begin. The GPU's clock may be
// set back a little.
__device__ __forceinline__ bool waited(u64 begin, u64 limit) { return (long long)(nanoseconds() - begin) > (long long)limit; }

__device__ __forceinline__ bf16 to_16bit(float a) { return (bf16)(pack(a, 0.f) & 0xffff); }

// gain is the factor of a norm for its weight w.
__device__ __forceinline__ float gain(float w) {
#if NORM_OFFSET
  return 1.f + w;
#else
  return w;
#endif
}

// activate is the activation of a gated feed-forward. (GELU: Hendrycks, Gimpel 2016,
// arXiv:1606.08415.) The division is within 2 units of the last place, and 0 beyond 2^126 (CUDA C++
// Programming Guide, __fdividef).
__device__ __forceinline__ float activate(float v) {
#if GELU
  return 0.5f * v * (1.f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
#else
  return __fdividef(v, 1.f + __expf(-v));
#endif
}

// bend is the soft cap of Gemma 2 (arXiv:2408.00118).
__device__ __forceinline__ float bend(float v, float cap) { return cap * tanhf(v / cap); }

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = WARP / 2; o > 0; o /= 2) v += __shfl_xor_sync(FULL, v, o);
  return v;
}

// arrive_warp arrives at a barrier once all lanes of the warp are done with what precedes it; the
// barrier counts WARP_ARRIVALS for each warp. Lane 0 arrives for all, and __syncwarp orders what the
// others did (PTX ISA, "Causality Order"). racecheck of compute-sanitizer takes an arrival for that of
// its thread alone (docs/log/native-tests.md), so each lane arrives in kernels that are compiled for
// it.
#ifdef SANITIZED
#define WARP_ARRIVALS WARP
#else
#define WARP_ARRIVALS 1
#endif
__device__ __forceinline__ void arrive_warp(u64 *b) {
  __syncwarp();
  if (WARP_ARRIVALS > 1 || threadIdx.x % WARP == 0) barrier_arrive(b);
}

// HEAD_LANE is how many values of a head each lane of a warp holds: those of index lane + 32*i.
#define HEAD_LANE (HEAD_DIM / WARP)

// Angles are the sines and cosines of a position for a lane's pairs of values, which lie half a head
// from each other.
struct Angles {
  float sin[HEAD_LANE / 2], cos[HEAD_LANE / 2];
};

__device__ __forceinline__ Angles angles(const float *frequencies, int pos) {
  Angles a;
#pragma unroll
  for (int i = 0; i < HEAD_LANE / 2; i++) sincosf((float)pos * frequencies[threadIdx.x % WARP + WARP * i], &a.sin[i], &a.cos[i]);
  return a;
}

// prepare_head applies RMSNorm, if the family has it, and RoPE to one head of q or k, after the bias.
// A warp holds the head.
__device__ __forceinline__ void prepare_head(float v[HEAD_LANE], const bf16 *norm, float eps, const Angles &a) {
#if QK_NORM
  float ss = 0.f;
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) ss += v[i] * v[i];
  float r = rsqrtf(warp_sum(ss) / HEAD_DIM + eps);
#pragma unroll
  for (int i = 0; i < HEAD_LANE; i++) v[i] *= r * gain(to_float(norm[threadIdx.x % WARP + WARP * i]));
#endif
#pragma unroll
  for (int i = 0; i < HEAD_LANE / 2; i++) {
    float x = v[i], y = v[i + HEAD_LANE / 2];
    v[i] = x * a.cos[i] - y * a.sin[i];
    v[i + HEAD_LANE / 2] = y * a.cos[i] + x * a.sin[i];
  }
}
