// Curves of losses in summaries.
#include "experiments/runner/report/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runner/report/report.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside::runner {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// Two samples a step, and 2 ranks that send 1 and 2 MB.
RunRecord row_of(std::vector<double> loss) {
  return made_up_row("ddp", 2, 0, 100, "a", std::move(loss));
}

TEST(LossCurves, SayWhatEachStepHadCost) {
  const auto curve = training_curve(row_of({3, 2, 1.5}));
  ASSERT_TRUE(curve);
  EXPECT_THAT(curve->step, ElementsAre(1, 2, 3));
  EXPECT_THAT(curve->samples, ElementsAre(2, 4, 6));
  EXPECT_THAT(curve->seconds, ElementsAre(DoubleEq(0.02), DoubleEq(0.04), DoubleEq(0.06)));
  EXPECT_THAT(curve->bytes, ElementsAre(3e6, 6e6, 9e6));
  EXPECT_THAT(curve->loss, ElementsAre(3, 2, 1.5));
  EXPECT_EQ(curve->of, 3);
}

TEST(LossCurves, LeavePointsOutButNotTheFirstAndTheLast) {
  std::vector<double> loss;
  for (int i = 0; i < 5001; ++i) loss.push_back(i);
  const auto curve = training_curve(row_of(loss));
  ASSERT_TRUE(curve);
  ASSERT_THAT(curve->loss, SizeIs(most_points));
  EXPECT_EQ(curve->loss.front(), 0);
  EXPECT_EQ(curve->loss.back(), 5000);
  EXPECT_EQ(curve->of, 5001);
  for (std::size_t i = 0; i < most_points; ++i) {
    EXPECT_EQ(curve->loss[i], static_cast<double>(curve->step[i] - 1));  // taken, not averaged
    if (i > 0) {
      EXPECT_NEAR(static_cast<double>(curve->step[i] - curve->step[i - 1]), 5000.0 / 199, 1);
    }
  }
}

TEST(LossCurves, OfEvaluationsHaveTimesThatWereMeasured) {
  RunRecord row = row_of({3, 2});
  row.evaluations = {{.step = 2, .loss = 2.5, .accuracy = 0.25, .seconds = 9, .training_s = 7}};
  const auto curve = evaluation_curve(row);
  ASSERT_TRUE(curve);
  EXPECT_THAT(curve->step, ElementsAre(2));
  EXPECT_THAT(curve->samples, ElementsAre(4));
  EXPECT_THAT(curve->seconds, ElementsAre(7));
  EXPECT_THAT(curve->bytes, ElementsAre(6e6));
  EXPECT_THAT(curve->loss, ElementsAre(2.5));
  EXPECT_THAT(curve->accuracy, ElementsAre(0.25));
}

TEST(LossCurves, OfFreeWorkersAreOverTime) {
  RunRecord row = row_of({3, 2});
  row.evaluations = {{.step = 2, .loss = 2.5}};
  row.held_out_over_time = {{.step = 1, .loss = 2.8, .training_s = 1},
                            {.step = 3, .loss = 2.2, .training_s = 2}};
  EXPECT_THAT(evaluation_curve(row)->loss, ElementsAre(2.8, 2.2));
}

TEST(LossCurves, AreNotThereWithoutLosses) {
  EXPECT_FALSE(training_curve(row_of({})));
  EXPECT_FALSE(evaluation_curve(row_of({1})));
}

TEST(LossCurves, AreThoseOfTheFirstRepeatOfTheSmallestSeed) {
  RunRecord other = row_of({9}), first = row_of({5}),
            repeat = made_up_row("ddp", 2, 1, 90, "a", {7});
  other.plan.train.seed = 3;
  first.plan.train.seed = repeat.plan.train.seed = 2;
  other.plan.id += "-s3";
  const auto cases = summarise({repeat, other, first});
  ASSERT_THAT(cases, SizeIs(1));
  EXPECT_THAT(cases[0].losses.curve->loss, ElementsAre(5));
  const auto json = summary_json("trial", cases);
  EXPECT_EQ(json["cases"][0]["loss_curve"]["loss"], nlohmann::ordered_json({5.0}));
  EXPECT_TRUE(json["cases"][0]["held_out_curve"].is_null());
}

}  // namespace
}  // namespace ringside::runner
