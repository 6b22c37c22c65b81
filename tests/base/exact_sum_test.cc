// ExactSum, compared with a slow reference that adds up single bits.
#include "core/num/exact_sum.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/num/random.h"
#include "tests/support/sum_of_bits.h"

namespace ringside {
namespace {

using Stored = std::array<double, ExactSum::digits>;
using testing::SumOfBits;

Stored stored(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  Stored out;
  sum.store(out);
  return out;
}

/// Squares of fp32 values of any exponent.
std::vector<double> wild_squares(std::uint64_t seed, std::size_t count) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random_bits(seed, Stream::synthetic_data, i);
    const auto exponent = static_cast<int>(bits >> 32) % 277 - 149;
    const double value = static_cast<float>(std::ldexp(1 + (bits & 0xffffff) * 0x1p-24, exponent));
    out.push_back(std::isfinite(value) ? value * value : 1);
  }
  return out;
}

TEST(ExactSum, IsTheSumOfAllBitsRoundedOnce) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const std::size_t count : {1, 2, 3, 100}) {
      const auto squares = wild_squares(seed, count);
      SumOfBits expected;
      for (const double square : squares) expected.add(square);
      EXPECT_EQ(ExactSum::value(stored(squares)), expected.rounded()) << seed << ", " << count;
    }
}

TEST(ExactSum, RoundsToNearestAndTiesToEven) {
  constexpr double tie = 0x1p-53, least = 0x1p-298;
  const auto total = [](const std::vector<double>& values) {
    return ExactSum::value(stored(values));
  };
  EXPECT_EQ(total({}), 0);
  EXPECT_EQ(total({least}), least);
  EXPECT_EQ(total({1, least}), 1);
  EXPECT_EQ(total({1, tie}), 1);
  EXPECT_EQ(total({1, tie, least}), 1 + 0x1p-52);
  EXPECT_EQ(total({1 + 0x1p-52, tie}), 1 + 0x1p-51);
  EXPECT_EQ(total({0x1p256, 0x1p-20, -0x1p256}), 0x1p-20) << "slices of a sum may be negative";
  EXPECT_EQ(total({0x1p297, -least}), 0x1p297);
  EXPECT_EQ(total({0x1p297, -0x1p297, least}), least);
}

TEST(ExactSum, AddsUpDigitByDigitInAnyOrder) {
  const auto squares = wild_squares(7, 5000);
  const Stored whole = stored(squares);
  for (const std::size_t parts : {2U, 17U, 4999U}) {
    Stored forward{}, backward{};
    for (std::size_t part = 0; part < parts; ++part) {
      const auto add = [&](std::size_t which, Stored& to) {
        const auto begin = squares.begin();
        const Stored more =
            stored({begin + static_cast<std::ptrdiff_t>(squares.size() * which / parts),
                    begin + static_cast<std::ptrdiff_t>(squares.size() * (which + 1) / parts)});
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
      };
      add(part, forward);
      add(parts - 1 - part, backward);
    }
    EXPECT_EQ(forward, backward);
    EXPECT_EQ(ExactSum::value(forward), ExactSum::value(whole));
  }
}

TEST(ExactSum, StaysNotFinite) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Stored sum = stored({1, inf, 2});
  EXPECT_EQ(ExactSum::value(sum), inf);
  const Stored finite = stored({3});
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += finite[i];
  EXPECT_EQ(ExactSum::value(sum), inf);
  EXPECT_TRUE(std::isnan(ExactSum::value(stored({inf, std::nan("")}))));
}

}  // namespace
}  // namespace ringside
