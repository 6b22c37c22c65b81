// fp16: IEEE 754 binary16.
#pragma once

#include <bit>
#include <cstdint>

namespace ringside {

/// Sign, 5 bits of exponent, 10 bits of mantissa. For storage alone: arithmetic is done in fp32.
struct fp16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(fp16 value) {
  const std::uint32_t magnitude = (value.bits & 0x7fffu) << 13;
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  // Moves the exponent and normalises subnormal values; infinities and NaN keep their exponent.
  const float moved = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(moved) | special | sign);
}

/// Rounds to nearest, ties to even; 65,520 and more become infinity; NaN stays NaN.
constexpr fp16 to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // For a value below 2^-14, adding 0.5 rounds to a multiple of 2^-24. The end of
  // the sum's mantissa then holds the number of these multiples: the bits of the subnormal.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
  const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const std::uint32_t infinite = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  // 65,520 is the smallest value that rounds to infinity.
  return {static_cast<std::uint16_t>(sign | (magnitude >= 0x477ff000u ? infinite : finite))};
}

}  // namespace ringside
