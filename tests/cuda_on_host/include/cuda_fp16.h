// fp16 of CUDA on the host: storage and conversions. There is no arithmetic, and nothing converts
// by itself.
#pragma once

#include "core/num/fp16.h"
#include "kernel_language.h"

struct alignas(2) __half {
  unsigned short __x;

  __half() = default;
  explicit __half(float value);
  explicit operator float() const { return ringside::to_float(ringside::fp16{__x}); }
};
struct alignas(4) __half2 {
  __half x, y;
};
using half = __half;
using half2 = __half2;

inline __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }
inline unsigned short __half_as_ushort(__half value) { return value.__x; }

// Rounds to the nearest, ties to even. Every NaN becomes 0x7fff, as on the hardware.
inline __half __float2half_rn(float value) {
  return __ushort_as_half(value != value ? 0x7fff : ringside::to_fp16(value).bits);
}
inline __half __float2half(float value) { return __float2half_rn(value); }
inline float __half2float(__half value) { return static_cast<float>(value); }
inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
inline float2 __half22float2(__half2 value) {
  return {__half2float(value.x), __half2float(value.y)};
}
inline __half::__half(float value) : __x(__float2half_rn(value).__x) {}
