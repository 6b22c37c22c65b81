#include "core/plan/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <tuple>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Cuts = std::vector<std::int64_t>;

double squares(const std::vector<double>& weights, const Cuts& cuts) {
  double sum = 0;
  for (int stage = 0; stage <= static_cast<int>(cuts.size()); ++stage) {
    const auto [first, end] =
        units_of_stage(cuts, static_cast<std::int64_t>(weights.size()), stage);
    double weight = 0;
    for (std::int64_t unit = first; unit < end; ++unit)
      weight += weights[static_cast<std::size_t>(unit)];
    sum += weight * weight;
  }
  return sum;
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

TEST(Stages, HaveAllUnitsBetweenTheirCuts) {
  const Cuts cuts = {2, 3};
  EXPECT_EQ(units_of_stage(cuts, 7, 0), (StageUnits{0, 2}));
  EXPECT_EQ(units_of_stage(cuts, 7, 1), (StageUnits{2, 3}));
  EXPECT_EQ(units_of_stage(cuts, 7, 2), (StageUnits{3, 7}));
  EXPECT_EQ(units_of_stage({}, 7, 0), (StageUnits{0, 7}));
  EXPECT_EQ(heaviest_stage({1, 2, 4, 8}, {1, 3}), 8);
}

}  // namespace
}  // namespace ringside
