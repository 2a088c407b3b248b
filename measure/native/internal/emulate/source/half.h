// These functions convert IEEE 754's binary16, because not every C++ compiler has a type for it.
#pragma once
#include <cstdint>
#include <cstring>

inline float half_value(uint16_t h) {
  uint32_t sign = (uint32_t)(h >> 15) << 31, exp = h >> 10 & 31, frac = h & 1023, bits;
  if (exp == 31)
    bits = 0xffu << 23 | frac << 13;
  else if (exp != 0)
    bits = (exp + 112) << 23 | frac << 13;
  else {
    float f = (float)frac * (1.f / (1 << 24));
    memcpy(&bits, &f, 4);
  }
  bits |= sign;
  float out;
  memcpy(&out, &bits, 4);
  return out;
}

// round_half rounds to nearest even. Values that are too large become infinite, and every NaN becomes
// 0x7fff.
inline uint16_t round_half(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  uint16_t sign = b >> 16 & 0x8000;
  uint32_t a = b & 0x7fffffff;
  if (a > 0x7f800000) return 0x7fff;
  if (a < 113u << 23) { // The value is below the least normal one, and adding 0.5 rounds its bits.
    float f;
    memcpy(&f, &a, 4);
    f += 0.5f;
    memcpy(&a, &f, 4);
    return sign | (uint16_t)(a - (126u << 23));
  }
  a += 0xfff + (a >> 13 & 1) - (112u << 23);
  return sign | (uint16_t)(a >= 31u << 23 ? 0x7c00 : a >> 13);
}
