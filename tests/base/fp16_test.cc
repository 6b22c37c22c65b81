// fp16 against IEEE 754's definition: every value, every tie.
#include "core/num/fp16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace ringside {
namespace {

/// The definition, in fp64: (-1)^sign * 2^(exponent - 15) * 1.mantissa, or, if the exponent is 0,
/// (-1)^sign * 2^-14 * 0.mantissa.
double defined(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? double{NAN} : sign * double{INFINITY};
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Fp16, EveryValueIsWhatItsBitsSayAndComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const fp16 value{static_cast<std::uint16_t>(bits)};
    const double expected = defined(value.bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(to_float(value))) << bits;
      ASSERT_TRUE(std::isnan(defined(to_fp16(to_float(value)).bits))) << bits;
      continue;
    }
    ASSERT_EQ(to_float(value), expected) << bits;
    ASSERT_EQ(std::signbit(to_float(value)), std::signbit(expected)) << bits;
    ASSERT_EQ(to_fp16(to_float(value)).bits, bits);
  }
}

TEST(Fp16, RoundsToTheNearestAndTiesToEven) {
  // Tests the middle between each two neighbouring values, and the floats on both sides of it.
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    // The value above the largest finite one would be 65,536; fp16 has infinity in its place.
    const double above = bits == 0x7bff ? 65536 : defined(high);
    const auto middle = static_cast<float>((defined(low) + above) / 2);  // exact
    for (const float sign : {1.0f, -1.0f}) {
      const std::uint32_t side = sign < 0 ? 0x8000u : 0u;
      ASSERT_EQ(to_fp16(sign * middle).bits, side | (bits % 2 ? high : low)) << middle;
      ASSERT_EQ(to_fp16(sign * std::nextafter(middle, 0.0f)).bits, side | low) << middle;
      ASSERT_EQ(to_fp16(sign * std::nextafter(middle, 1e9f)).bits, side | high) << middle;
    }
  }
}

TEST(Fp16, WhatIsBeyondTheLargestIsInfinite) {
  for (const float value : {65520.0f, 65536.0f, 1e10f, 0x1.fffffep127f, INFINITY}) {
    EXPECT_EQ(to_fp16(value).bits, 0x7c00) << value;
    EXPECT_EQ(to_fp16(-value).bits, 0xfc00) << value;
  }
  EXPECT_EQ(to_fp16(0x1p-149f).bits, 0);
  EXPECT_EQ(to_fp16(-0x1p-149f).bits, 0x8000);
}

}  // namespace
}  // namespace ringside
