#include "ps/protocol/step_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside::ps {
namespace {

using ::testing::ElementsAre;

bool everybody(int) { return true; }
bool nobody(int) { return false; }

TEST(StepBudget, GivesASlowerWorkerItsShareOfThePeriod) {
  StepBudget budget(100, 3, {.period = 8, .by_speed = true});
  EXPECT_EQ(budget.give(0, 0, 100, nobody), 8) << "it has not said its speed";
  EXPECT_EQ(budget.give(0, 4, 100, nobody), 8);
  EXPECT_EQ(budget.give(1, 2, 100, nobody), 4);
  EXPECT_EQ(budget.give(2, 1.9, 100, nobody), 3) << "8 * 1.9 / 4, rounded down";
  EXPECT_EQ(budget.give(2, 0.01, 100, nobody), 1) << "never none";
  budget.forget_speed(0);
  EXPECT_EQ(budget.give(1, 2, 100, nobody), 8) << "it is the fastest that is left";
  EXPECT_THAT(budget.given(), ElementsAre(16, 12, 4));
  EXPECT_THAT(budget.speeds(), ElementsAre(0, 2, 0.01));
}

TEST(StepBudget, GivesEverySpeedAPeriodUnlessTold) {
  StepBudget budget(100, 2, {.period = 8});
  EXPECT_EQ(budget.give(0, 4, 100, nobody), 8);
  EXPECT_EQ(budget.give(1, 1, 100, nobody), 8);
}

TEST(StepBudget, GivesAllStepsOfAllWorkersAndNoMore) {
  StepBudget budget(5, 2, {.period = 4});
  EXPECT_EQ(budget.give(0, 0, 5, nobody), 4);
  EXPECT_EQ(budget.begun(), 2);
  EXPECT_EQ(budget.give(0, 0, 5, nobody), 4);
  EXPECT_EQ(budget.give(1, 0, 5, nobody), 2);
  EXPECT_EQ(budget.begun(), 5);
  EXPECT_EQ(budget.give(1, 0, 5, nobody), 0);
  budget.count_given(0, 5);
  EXPECT_EQ(budget.give(1, 0, 5, nobody), 3) << "what a lost worker has not done";
}

TEST(StepBudget, KeepsAPeriodForEachWorkerThatStillAsks) {
  StepBudget budget(4, 3, {.period = 4});
  EXPECT_EQ(budget.give(0, 0, 4, everybody), 4);
  EXPECT_EQ(budget.give(0, 0, 4, everybody), 0) << "8 are left, for two workers";
  EXPECT_EQ(budget.give(0, 0, 4, [](int worker) { return worker == 1; }), 4);
  EXPECT_EQ(budget.give(1, 0, 4, everybody), 0) << "the last 4 are worker 2's";
  EXPECT_EQ(budget.give(2, 0, 4, [](int worker) { return worker != 1; }), 4)
      << "worker 1, which got none, asks no more";
}

TEST(StepBudget, StopsAtTheLimitAndGoesOnBeyondIt) {
  StepBudget budget(10, 2, {.period = 8});
  EXPECT_EQ(budget.give(0, 0, 3, nobody), 6) << "3 steps of 2 workers";
  EXPECT_EQ(budget.give(1, 0, 3, nobody), 0);
  EXPECT_EQ(budget.begun(), 3);
  EXPECT_EQ(budget.give(1, 0, 6, nobody), 6);
}

TEST(StepBudget, GoesOnAfterStepsThatAreDone) {
  StepBudget budget(10, 2, {.period = 100});
  budget.restored(7);
  EXPECT_THAT(budget.given(), ElementsAre(7, 7));
  EXPECT_EQ(budget.begun(), 7);
  budget.restored({9, 5}, {1, 2});
  EXPECT_THAT(budget.given(), ElementsAre(9, 5));
  EXPECT_EQ(budget.give(0, 1, 10, everybody), 6) << "all that is left: both have had some";
}

}  // namespace
}  // namespace ringside::ps
