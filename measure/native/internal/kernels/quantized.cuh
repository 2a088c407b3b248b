// This file defines how weights of 8 and 4 bits lie in memory, and converts them to the 16-bit format.
// The host defines QUANTIZED as their bits.
//
//   8  e4m3 (Micikevicius et al. 2022, arXiv:2209.05433), scales[n] in float32
//   4  groups of 128 inputs with a scale of 16 bits and a zero point of 4:
//      value = (q - zero) * scale, scales[k/128][n], zeros[k/128][n/2], the zero
//      point of an even row in the low half of its byte
//
// The order of a row's weights is not that of its inputs. A unit of 64 bytes is
// the inputs of one or two mma's steps of 32 for each 8 bits: the 16 bytes of lane
// t of four have, for each step j, inputs 32j + 8t to 32j + 8t + 7, so that lanes
// read the inputs as those of gemm_skinny.cu do. Within the eight, weights lie where a
// shift and a mask leave two neighbours in the halves of a word.
//
//   8  bytes of each four inputs: 0, 2, 1, 3
//   4  halves of bytes, from the lowest: 0, 2, 4, 6, 1, 3, 5, 7
//
// A unit's eights lie in the order (t, j), so eight e of a row, of inputs 8e to
// 8e + 7, is eight_of(e).

#ifdef QUANTIZED

#define EIGHTS (64 / QUANTIZED) // eights of a unit, which is 64 bytes
#define STEPS (EIGHTS / 4) // mma steps of 32 inputs in a unit
#define UNIT (STEPS * 32) // inputs of a unit
#define GROUP_INPUTS 128 // inputs that share a scale, for 4-bit weights

__device__ __forceinline__ u64 eight_of(u64 e) { return e / EIGHTS * EIGHTS + e % 4 * STEPS + e % EIGHTS / 4; }

#if FP16
#define ONE16 0x3c003c00u
#define BIAS16 0x5c005c00u  // 2 to the difference of e4m3's exponent bias and the format's, 8
#define ABOVE16 0x4c004c00u // 16
#define FOUR_BITS 6 // the lowest bit of the integer part of such a number
#else
#define ONE16 0x3f803f80u
#define BIAS16 0x7b807b80u // 120
#define ABOVE16 0x41804180u
#define FOUR_BITS 3
#endif
#define ABOVE 16.f

__device__ __forceinline__ u32 rotate(u32 v, int right) { return v >> (right & 31) | v << (-right & 31); }

#if QUANTIZED == 8
// pairs converts four weights to two words. Before the multiplication their exponents are too small by
// a constant. The result is exact, also for e4m3's subnormal numbers.
__device__ __forceinline__ void pairs(u32 v, u32 &a, u32 &b) {
#if FP16
  u32 even = v << 8;
  a = multiply_add16((even & 0x80008000u) | ((even & 0x7f007f00u) >> 1), BIAS16, 0x80008000u);
  b = multiply_add16((v & 0x80008000u) | ((v & 0x7f007f00u) >> 1), BIAS16, 0x80008000u);
#else
  a = multiply_add16(v & 0x87f087f0u, BIAS16, 0x80008000u);
  b = multiply_add16((v << 4 & 0x80f080f0u) | (v >> 4 & 0x07000700u), BIAS16, 0x80008000u);
#endif
}

// pack_e4m3 is the word of four weights whose bytes v has in their order.
__device__ __forceinline__ u32 pack_e4m3(u32 v) {
#if FP16
  return (v & 0xff0000ffu) | (v & 0xff00u) << 8 | (v >> 8 & 0xff00u);
#else
  u32 first = (v & 0xffu) | (v & 0xff00u) << 8, second = (v >> 16 & 0xffu) | (v >> 24) << 16;
  return (first & 0x00800080u) << 8 | (first & 0x007f007fu) << 4 | (second & 0x00700070u) << 8 | (second & 0x00800080u) << 4 | (second & 0x000f000fu);
#endif
}

// dequantize_eight converts eight weights to 16 bits, without their scale.
__device__ __forceinline__ uint4 dequantize_eight(const u8 *at) {
  uint2 v = *(const uint2 *)at;
  uint4 o;
  pairs(v.x, o.x, o.y);
  pairs(v.y, o.z, o.w);
  return o;
}

// round_e4m3 rounds to nearest even and saturates at 448.
__device__ __forceinline__ u32 round_e4m3(float v) {
  u32 b = __float_as_uint(v), sign = b >> 24 & 0x80, a = b & 0x7fffffff;
  if (a < 121u << 23) // A value below the least normal one, 2^-6, is a multiple of 2^-9.
    return sign | (u32)rintf(__uint_as_float(a) * 512.f);
  a += 0x7ffff + (a >> 20 & 1);
  a = (a >> 20) - (120 << 3);
  return sign | (a > 0x7e ? 0x7e : a);
}
#else
// above converts eight weights to four words, each value larger by ABOVE. Numbers from 16 to 32 have
// the four bits of a weight at the top of their mantissa.
__device__ __forceinline__ void above(u32 v, u32 o[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) o[i] = and_or(rotate(v, 4 * i + 3 - FOUR_BITS), 0xf * 0x10001u << FOUR_BITS, ABOVE16);
}

// minus_zero is what pairs adds for a zero point.
__device__ __forceinline__ u32 minus_zero(u32 zero) { return (ABOVE16 | 0x80008000u) + (zero * 0x10001u << FOUR_BITS); }

// pairs converts eight weights to four words and subtracts their zero point; the result is exact.
__device__ __forceinline__ void pairs(u32 v, u32 minus, u32 o[4]) {
  above(v, o);
#pragma unroll
  for (int i = 0; i < 4; i++) o[i] = multiply_add16(o[i], ONE16, minus);
}

// pack_fours is the word of eight weights whose bits stand in the halves of bytes, from
// the lowest: 0, 2, 4, 6, 1, 3, 5, 7.
__device__ __forceinline__ u32 pack_fours(u32 v) { return rotate(v, 32 - 3); }
#endif

#endif // QUANTIZED
