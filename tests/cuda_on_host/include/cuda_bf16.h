// CUDA's type bf16 on the host: storage and conversions. There is no arithmetic, and there are no
// implicit conversions.
#pragma once

#include "kernel_language.h"

struct alignas(2) __nv_bfloat16 {
  unsigned short __x;

  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value);
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(__x) << 16);
  }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return std::bit_cast<__nv_bfloat16>(bits);
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }

// Rounds to nearest, ties to even; every NaN becomes 0x7fff, as on the hardware.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return __ushort_as_bfloat16(0x7fff);
  return __ushort_as_bfloat16(
      static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
}
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) {
  return __floats2bfloat162_rn(value.x, value.y);
}
inline float2 __bfloat1622float2(__nv_bfloat162 value) {
  return {__bfloat162float(value.x), __bfloat162float(value.y)};
}
inline __nv_bfloat16::__nv_bfloat16(float value) : __x(__float2bfloat16_rn(value).__x) {}
