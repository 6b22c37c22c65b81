#include "experiments/runner/report/two_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ringside::runner {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

/// The first sample of n and m different values whose U is `u`.
struct Samples {
  std::vector<double> a, b;
};
Samples samples_with(std::size_t n, std::size_t m, std::size_t u) {
  Samples out;
  std::vector<bool> taken(n + m);
  for (std::size_t i = n; i > 0; --i) {  // each value of a can be above at most m values of b
    const std::size_t above = std::min(u, m);
    u -= above;
    out.a.push_back(static_cast<double>(i - 1 + above));
    taken[i - 1 + above] = true;
  }
  for (std::size_t rank = 0; rank < n + m; ++rank)
    if (!taken[rank]) out.b.push_back(static_cast<double>(rank));
  return out;
}

TEST(MannWhitney, HasTheCriticalValuesOfPublishedTables) {
  // The largest U that differs at 5%, two-sided, as textbooks print it.
  struct {
    std::size_t n, m, u;
  } const table[] = {{4, 4, 0},    {5, 5, 2},   {6, 6, 5},    {7, 7, 8},
                     {7, 12, 18},  {8, 8, 13},  {9, 9, 17},   {10, 10, 23},
                     {12, 12, 37}, {5, 12, 11}, {15, 15, 64}, {20, 20, 127}};
  for (const auto& [n, m, u] : table) {
    const Samples at = samples_with(n, m, u), above = samples_with(n, m, u + 1);
    const RankTest differs = mann_whitney(at.a, at.b);
    EXPECT_EQ(differs.u, u);
    EXPECT_LE(differs.p, 0.05) << n << " " << m;
    EXPECT_GT(mann_whitney(above.a, above.b).p, 0.05) << n << " " << m;
    const RankTest other_way = mann_whitney(at.b, at.a);
    EXPECT_EQ(other_way.u, static_cast<double>(n * m - u));
    EXPECT_NEAR(other_way.p, differs.p, 1e-12);
  }
}

TEST(MannWhitney, HasTheDistributionOfThePaper) {
  // Mann and Whitney's table for n = m = 3: P(U <= u) = .05, .1, .2, .35, .5
  const double below[] = {0.05, 0.1, 0.2, 0.35, 0.5};
  for (std::size_t u = 0; u < 5; ++u) {
    const Samples samples = samples_with(3, 3, u);
    EXPECT_NEAR(mann_whitney(samples.a, samples.b).p, 2 * below[u], 1e-12) << u;
  }
}

TEST(MannWhitney, GivesTheFiguresOfScipy) {
  // scipy 1.17.1: mannwhitneyu(a, b, method="exact")
  const RankTest unequal =
      mann_whitney({1.83, 1.93, 1.88, 1.67, 1.32, 1.84, 1.76}, {0.96, 1.14, 1.56, 1.81, 1.12});
  EXPECT_EQ(unequal.u, 31);
  EXPECT_NEAR(unequal.p, 0.030303030303030304, 1e-14);
  const RankTest equal =
      mann_whitney({98.2, 101.5, 99.7, 100.4, 97.9}, {95.1, 94.2, 96.3, 93.8, 99.0});
  EXPECT_EQ(equal.u, 23);
  EXPECT_NEAR(equal.p, 0.031746031746031744, 1e-14);
  // Ties: all 462 ways of dividing the values, as PermutationMethod counts them.
  const RankTest tied = mann_whitney({3, 1, 2, 2, 5}, {2, 4, 6, 6, 3, 7});
  EXPECT_EQ(tied.u, 5.5);
  EXPECT_NEAR(tied.p, 2.0 * 22 / 462, 1e-14);
  EXPECT_TRUE(tied.exact);
}

TEST(MannWhitney, OfManyValuesIsTheNormalApproximationOfScipy) {
  // mannwhitneyu(a, b, method="asymptotic")
  std::vector<double> a, b;
  for (int i = 1; i <= 60; ++i) a.push_back(i);
  for (int i = 1; i <= 50; ++i) b.push_back(i + 7.5);
  const RankTest distinct = mann_whitney(a, b);
  EXPECT_FALSE(distinct.exact);
  EXPECT_EQ(distinct.u, 1375);
  EXPECT_NEAR(distinct.p, 0.4548379677495855, 1e-12);
  a.clear();
  b.clear();
  for (int i = 0; i < 60; ++i) a.push_back(std::floor(i / 3.0));
  for (int i = 0; i < 50; ++i) b.push_back(std::floor(i / 4.0) + 4);
  const RankTest tied = mann_whitney(a, b);
  EXPECT_EQ(tied.u, 1461);
  EXPECT_NEAR(tied.p, 0.8169329128429813, 1e-12);
}

TEST(MannWhitney, OfEqualValuesOrNoneSaysNothing) {
  EXPECT_EQ(mann_whitney({1, 1, 1}, {1, 1}).p, 1);
  EXPECT_EQ(mann_whitney({}, {1, 2}).p, 1);
  EXPECT_EQ(mann_whitney(std::vector<double>(80, 1.0), std::vector<double>(80, 1.0)).p, 1);
}

TEST(SmallestP, IsThatOfSamplesThatLieApart) {
  for (const std::size_t n : {1u, 2u, 3u, 5u, 9u, 30u}) {
    const Samples apart = samples_with(n, n + 1, 0);
    EXPECT_NEAR(smallest_p(n, n + 1) / mann_whitney(apart.a, apart.b).p, 1, 1e-9) << n;
  }
}

TEST(FactorBetween, IsTheMedianQuotientWithAnIntervalOfOrderStatistics) {
  // 25 quotients; P(U <= 2) = 4 / 252 < 2.5% < P(U <= 3): two are left out at each end.
  const std::vector<double> a = {100, 101, 103, 107, 110}, b = {90, 93, 97, 98, 104};
  std::vector<double> quotients;
  for (const double of_a : a)
    for (const double of_b : b) quotients.push_back(of_b / of_a);
  std::sort(quotients.begin(), quotients.end());
  const Factor factor = factor_between(a, b, 0.95);
  EXPECT_EQ(factor.estimate, quotients[12]);
  ASSERT_TRUE(factor.interval);
  EXPECT_EQ(factor.interval->low, quotients[2]);
  EXPECT_EQ(factor.interval->high, quotients[22]);
  EXPECT_FALSE(factor_between({1, 2, 3}, {1, 2, 3}, 0.95).interval);  // smallest p: 0.1
  EXPECT_TRUE(factor_between({1, 2, 3}, {1, 2, 3}, 0.9).interval);
}

TEST(FactorBetween, HasOneInItsIntervalUnlessTheTestFindsADifference) {
  for (std::size_t u = 0; u <= 36; ++u) {
    Samples samples = samples_with(6, 6, u);
    for (auto* values : {&samples.a, &samples.b})
      for (double& value : *values) value = 100 + value;
    const auto interval = factor_between(samples.a, samples.b, 0.95).interval;
    ASSERT_TRUE(interval);
    EXPECT_EQ(interval->low <= 1 && 1 <= interval->high,
              mann_whitney(samples.a, samples.b).p > 0.05)
        << u;
  }
}

TEST(FactorBetween, HasNearlyTheSameIntervalWithAndWithoutTheNormalApproximation) {
  std::vector<double> a, b;
  for (int i = 0; i < 50; ++i) {
    a.push_back(100 + i % 7 + i / 100.0);
    b.push_back(103 + i % 9 + i / 90.0);
  }
  const auto exact = factor_between(a, b, 0.95).interval;
  a.push_back(103.2);  // 101 values
  const auto normal = factor_between(a, b, 0.95).interval;
  ASSERT_TRUE(exact && normal);
  EXPECT_NEAR(exact->low, normal->low, 1e-3);
  EXPECT_NEAR(exact->high, normal->high, 1e-3);
}

TEST(Holm, MultipliesTheSmallestByAllAndNoneBelowThoseBefore) {
  EXPECT_THAT(holm({0.01, 0.04, 0.03, 0.005}),
              ElementsAre(DoubleNear(0.03, 1e-15), DoubleNear(0.06, 1e-15), DoubleNear(0.06, 1e-15),
                          DoubleNear(0.02, 1e-15)));
  EXPECT_THAT(holm({0.9, 0.8}), ElementsAre(1, 1));
  EXPECT_THAT(holm({}), ElementsAre());
}

}  // namespace
}  // namespace ringside::runner
