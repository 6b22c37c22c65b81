// bf16: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace ringside {

/// Sign, 8 bits of exponent, 7 bits of mantissa. For storage alone: arithmetic is done in fp32.
struct bf16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

}  // namespace ringside
