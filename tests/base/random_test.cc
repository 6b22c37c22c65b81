#include "core/num/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace ringside {
namespace {

constexpr Stream stream = Stream::parameters;

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  using Counter = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;
  EXPECT_EQ(philox(Counter{0, 0, 0, 0}, Key{0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox(Counter{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, Key{0xffffffff, 0xffffffff}),
      (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Key{0xa4093822, 0x299f31d0}),
      (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomBits, DependOnSeedStreamAndPosition) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 32, 1ull << 63})
    for (Stream s : {Stream::parameters, Stream::sampler, Stream::synthetic_data})
      for (std::uint64_t position : {0ull, 1ull, 1ull << 32, 1ull << 63})
        seen.insert(random_bits(seed, s, position));
  EXPECT_EQ(seen.size(), 4u * 3u * 4u);
  EXPECT_EQ(random_bits(7, stream, 11), random_bits(7, stream, 11));
}

TEST(RandomUniform, HasTheMomentsOfTheUnitInterval) {
  constexpr int n = 200'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = random_uniform(3, stream, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
}

TEST(RandomNormal, HasTheMomentsOfTheStandardNormal) {
  constexpr int n = 200'000;
  double moment[5] = {}, neighbours = 0, last = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(5, stream, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (int k = 1; k < 5; ++k) moment[k] += (power *= x);
    neighbours += x * last;
    last = x;
  }
  const double error = 5 / std::sqrt(double{n});
  EXPECT_NEAR(moment[1] / n, 0, error);
  EXPECT_NEAR(moment[2] / n, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(moment[3] / n, 0, error * std::sqrt(15.0));
  EXPECT_NEAR(moment[4] / n, 3, error * std::sqrt(96.0));
  EXPECT_NEAR(neighbours / n, 0, error);
}

std::vector<std::uint64_t> permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t key) {
  std::vector<std::uint64_t> out(size);
  for (std::uint64_t i = 0; i < size; ++i) out[i] = permuted(i, size, seed, key);
  return out;
}

TEST(Permuted, IsABijection) {
  for (std::uint64_t size : {1, 2, 3, 7, 64, 1000, 4097})
    for (std::uint64_t key : {0, 1, 5}) {
      const auto p = permutation(size, 42, key);
      const std::set<std::uint64_t> images(p.begin(), p.end());
      EXPECT_EQ(images.size(), size);
      EXPECT_EQ(*images.rbegin(), size - 1);
    }
}

TEST(Permuted, StaysInsideOfHugeRanges) {
  for (std::uint64_t size : {(1ull << 32) - 1, (1ull << 40) + 3, ~0ull})
    for (std::uint64_t position : {std::uint64_t{0}, size / 2, size - 1})
      EXPECT_LT(permuted(position, size, 1, 2), size);
}

TEST(Permuted, DiffersByKeyAndBySeed) {
  const auto p = permutation(1000, 1, 1);
  EXPECT_NE(p, permutation(1000, 1, 2));
  EXPECT_NE(p, permutation(1000, 2, 1));
  EXPECT_NE(p, permutation(1000, 1, 1 + (1ull << 32)));
  EXPECT_NE(p, permutation(1000, 1 + (1ull << 32), 1));
  EXPECT_EQ(p, permutation(1000, 1, 1));
}

TEST(Permuted, SendsEveryPositionEverywhereEquallyOften) {
  constexpr std::uint64_t size = 7, trials = 7'000;
  std::vector<double> count(size * size);
  for (std::uint64_t key = 0; key < trials; ++key) {
    const auto p = permutation(size, 9, key);
    for (std::uint64_t i = 0; i < size; ++i) ++count[i * size + p[i]];
  }
  const double expected = double{trials} / size;
  double chi_square = 0;
  for (double c : count) chi_square += (c - expected) * (c - expected) / expected;
  EXPECT_LT(chi_square, 85);  // 36 degrees of freedom: p < 1e-5
}

TEST(Permuted, LeavesNoOrderInALargeRange) {
  constexpr std::uint64_t size = 10'000;
  const auto p = permutation(size, 3, 0);
  double correlation = 0, neighbours = 0;
  const double mean = (size - 1) / 2.0, variance = (double{size} * size - 1) / 12;
  for (std::uint64_t i = 0; i < size; ++i) {
    correlation += (static_cast<double>(i) - mean) * (static_cast<double>(p[i]) - mean);
    neighbours +=
        (static_cast<double>(p[i]) - mean) * (static_cast<double>(p[(i + 1) % size]) - mean);
  }
  EXPECT_LT(std::abs(correlation / size / variance), 0.05);
  EXPECT_LT(std::abs(neighbours / size / variance), 0.05);
}

}  // namespace
}  // namespace ringside
