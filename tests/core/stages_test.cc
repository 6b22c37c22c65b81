#include "core/plan/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Cuts = std::vector<std::int64_t>;

double squares(const std::vector<double>& weights, const Cuts& cuts) {
  std::vector<double> stages(cuts.size() + 1);
  for (std::size_t unit = 0; unit < weights.size(); ++unit) {
    const auto before = std::upper_bound(cuts.begin(), cuts.end(), static_cast<std::int64_t>(unit));
    stages[static_cast<std::size_t>(before - cuts.begin())] += weights[unit];
  }
  return std::inner_product(stages.begin(), stages.end(), stages.begin(), 0.0);
}

/// The best of all divisions, each of which is tried.
Cuts by_trying_all(const std::vector<double>& weights, int stages) {
  const auto units = static_cast<std::int64_t>(weights.size());
  Cuts best, cuts;
  bool any = false;
  const auto value = [&](const Cuts& of) {
    return std::tuple(heaviest_stage(weights, of), squares(weights, of), of);
  };
  const std::function<void(std::int64_t)> add = [&](std::int64_t from) {
    if (static_cast<int>(cuts.size()) + 1 == stages) {
      if (!any || value(cuts) < value(best)) best = cuts;
      any = true;
      return;
    }
    for (std::int64_t cut = from; cut < units; ++cut) {
      cuts.push_back(cut);
      add(cut + 1);
      cuts.pop_back();
    }
  };
  add(1);
  return best;
}

TEST(Stages, AreAsEvenAsTheBestOfAllDivisions) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> weight(0, 9), count(1, 9);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> weights(static_cast<std::size_t>(count(random)));
    for (double& one : weights) one = weight(random);
    for (int stages = 1; stages <= static_cast<int>(weights.size()); ++stages)
      EXPECT_EQ(balanced_cuts(weights, stages), by_trying_all(weights, stages))
          << ::testing::PrintToString(weights) << " in " << stages;
  }
}

TEST(Stages, OfEqualUnitsAreEqualAndOtherwiseCutEarly) {
  EXPECT_THAT(balanced_cuts({1, 1, 1, 1, 1, 1}, 3), ElementsAre(2, 4));
  EXPECT_THAT(balanced_cuts({1, 1, 1, 1, 1}, 2), ElementsAre(2)) << "as good as 3, and earlier";
  EXPECT_THAT(balanced_cuts({1, 1, 1}, 1), IsEmpty());
  EXPECT_THAT(balanced_cuts({1, 1, 1}, 3), ElementsAre(1, 2));
}

TEST(Stages, BesideAHeavyUnitAreEvenToo) {
  // The heaviest stage weighs 100 wherever the other units are cut.
  EXPECT_THAT(balanced_cuts({100, 1, 1, 1, 1}, 3), ElementsAre(1, 3));
  EXPECT_THAT(balanced_cuts({1, 1, 1, 1, 100}, 3), ElementsAre(2, 4));
}

TEST(Stages, OfUnitsWithoutParametersHaveOneUnitEach) {
  EXPECT_THAT(balanced_cuts({0, 0, 0}, 3), ElementsAre(1, 2));
}

TEST(Stages, AreAsHeavyAsTheirUnits) {
  EXPECT_EQ(heaviest_stage({1, 2, 4, 8}, {1, 3}), 8);
  EXPECT_EQ(heaviest_stage({1, 2, 4, 8}, {3}), 8);
  EXPECT_EQ(heaviest_stage({1, 2, 8, 4}, {1}), 14);
  EXPECT_EQ(heaviest_stage({1, 2, 8, 4}, {}), 15);
}

}  // namespace
}  // namespace ringside
