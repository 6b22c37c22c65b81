// The time at which runs reach a held-out loss, and their cost until then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/runner/report/report.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside::runner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A run that is evaluated after every second step of `step_s` seconds.
RunRecord evaluated(const std::string& scheme, int world, std::int64_t seed, double step_s,
                    const std::vector<double>& losses) {
  RunRecord row = made_up_row(scheme, world, 0, 2 / step_s, "a", {2, 1});
  row.plan.train.seed = seed;
  row.plan.id += std::to_string(seed);
  row.plan.listing.target_kind = TargetKind::single;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<std::int64_t>(2 * (i + 1));
    const double seconds = static_cast<double>(step) * step_s;
    row.evaluations.push_back({step, losses[i], losses[i], 0, seconds + 100, seconds});
  }
  return row;
}

TEST(CostToLoss, IsThatOfTheFirstCrossingInterpolated) {
  RunRecord row = evaluated("ddp", 2, 1, 0.5, {4, 3, 2, 2.5, 1});
  // Between step 4 (2 s, loss 3) and step 6 (3 s, loss 2), a quarter of the way.
  const auto cost = cost_to(row, 2.75);
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->seconds, 2.25) << "without the time of evaluations";
  EXPECT_DOUBLE_EQ(cost->samples, 4.5 * 2);
  EXPECT_DOUBLE_EQ(cost->bytes, 4.5 * (1e6 + 2e6)) << "of both ranks";
  EXPECT_DOUBLE_EQ(cost_to(row, 4.5)->seconds, 1) << "reached before the first evaluation";
  EXPECT_DOUBLE_EQ(cost_to(row, 3)->seconds, 2) << "exactly at an evaluation";
  EXPECT_FALSE(cost_to(row, 0.5)) << "never reached";
  row.evaluations.clear();
  EXPECT_FALSE(cost_to(row, 0.5));
  EXPECT_FALSE(final_loss(row));
}

TEST(CostToLoss, TheFinalLossIsAMeanOfTheLastThree) {
  EXPECT_DOUBLE_EQ(*final_loss(evaluated("ddp", 2, 1, 1, {9, 3, 2, 1})), 2);
  EXPECT_DOUBLE_EQ(*final_loss(evaluated("ddp", 2, 1, 1, {3, 1})), 2);
}

TEST(TimeToLoss, TakesItsTargetFromSingleOfTheSameSeed) {
  // `single` ends at 2 with seed 1 and at 3 with seed 2; ddp is twice as fast.
  const std::vector<RunRecord> rows = {
      evaluated("single", 1, 1, 1, {4, 2, 2, 2}), evaluated("single", 1, 2, 1, {4, 3, 3, 3}),
      evaluated("ddp", 2, 1, 0.5, {4, 2, 2, 2}), evaluated("ddp", 2, 2, 0.5, {4, 3, 3, 3.3})};
  const auto cases = summarise(rows);
  ASSERT_EQ(cases.size(), 2u) << "seeds share a line";
  const auto& time = cases[1].time_to_loss;
  ASSERT_TRUE(time);
  EXPECT_EQ(time->runs, 2);
  EXPECT_EQ(time->reached, 2);
  EXPECT_DOUBLE_EQ(time->target->range.low, 2);
  EXPECT_DOUBLE_EQ(time->target->range.high, 3);
  ASSERT_TRUE(time->seconds);
  EXPECT_DOUBLE_EQ(time->seconds->median, 2);
  EXPECT_DOUBLE_EQ(time->speed_up->median, 2);
  EXPECT_DOUBLE_EQ(time->final_difference->range.low, 0);
  EXPECT_NEAR(time->final_difference->range.high, 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(*time->seed_spread, 0.5);
  EXPECT_DOUBLE_EQ(cases[0].time_to_loss->speed_up->range.high, 1) << "against itself";
}

TEST(TimeToLoss, OneRunThatDoesNotReachTheTargetLeavesNoMedian) {
  const auto cases = summarise(
      {evaluated("single", 1, 1, 1, {4, 2, 2, 2}), evaluated("single", 1, 2, 1, {4, 2, 2, 2}),
       evaluated("ddp", 2, 1, 0.5, {4, 2, 2, 2}), evaluated("ddp", 2, 2, 0.5, {4, 3, 3, 3})});
  const auto& time = cases[1].time_to_loss;
  ASSERT_TRUE(time);
  EXPECT_EQ(time->reached, 1);
  EXPECT_FALSE(time->seconds);
  EXPECT_FALSE(time->speed_up);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("|  1 of 2 |"));
  EXPECT_THAT(text, HasSubstr("| not reached |"));
  EXPECT_THAT(text, HasSubstr("Seeds alone move the final loss of `single` by ±0.0000"));
  EXPECT_TRUE(summary_json("trial", cases)["cases"][1]["time_to_loss"]["seconds"].is_null());
}

TEST(TimeToLoss, WithoutSingleTheTargetIsNotKnown) {
  const auto cases = summarise({evaluated("ddp", 2, 1, 0.5, {4, 3, 2})});
  ASSERT_TRUE(cases[0].time_to_loss);
  EXPECT_FALSE(cases[0].time_to_loss->target);
  EXPECT_EQ(cases[0].time_to_loss->reached, 0);
  EXPECT_THAT(summary_text(cases), HasSubstr("| no `single` |"));
}

TEST(TimeToLoss, SingleWithAnotherLearningRateDoesNotCount) {
  RunRecord other = evaluated("single", 1, 1, 1, {4, 2, 2, 2});
  other.plan.optimizer.lr *= 2;
  other.plan.sums.lr *= 2;
  other.plan.id += "b";
  const std::vector<RunRecord> rows = {other, evaluated("single", 1, 1, 1, {4, 3, 3, 3}),
                                       evaluated("ddp", 2, 1, 0.5, {4, 3, 2, 2})};
  const auto cases = summarise(rows);
  EXPECT_DOUBLE_EQ(cases.back().time_to_loss->target->median, 3);
}

TEST(TimeToLoss, AGivenTargetNeedsNoSingle) {
  RunRecord row = evaluated("ddp", 2, 1, 0.5, {4, 3, 2});
  row.plan.listing.target_kind = TargetKind::number;
  row.plan.listing.target_loss = 2.5;
  const auto cases = summarise({row});
  ASSERT_TRUE(cases[0].time_to_loss);
  EXPECT_DOUBLE_EQ(cases[0].time_to_loss->seconds->median, 2.5);
  EXPECT_FALSE(cases[0].time_to_loss->final_difference);
  row.plan.listing.target_kind = TargetKind::none;
  EXPECT_FALSE(summarise({row})[0].time_to_loss);
  EXPECT_THAT(summary_text(summarise({row})), Not(HasSubstr("time to loss |")));
}

}  // namespace
}  // namespace ringside::runner
