// The best interval of checkpoints, against a minimum that is searched for.
#include "core/plan/checkpoint_interval.h"
#include "core/plan/saved_steps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ringside {
namespace {

/// The mean time of a run that never ends for one of its seconds of training, and the interval at
/// which it is least, by golden sections.
double time_of(double interval, double cost) { return expected_time_s(1, interval, cost, 0, 1); }
double best_interval(double cost) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = 1e-6, high = 5;
  while (high - low > 1e-9) {
    const double a = high - golden * (high - low), b = low + golden * (high - low);
    (time_of(a, cost) < time_of(b, cost) ? high : low) =
        time_of(a, cost) < time_of(b, cost) ? b : a;
  }
  return (low + high) / 2;
}

TEST(CheckpointInterval, OfDalyTakesNextToTheLeastTime) {
  for (const double cost : {1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0, 1.9, 2.5}) {
    const double least = time_of(best_interval(cost), cost);
    const double daly = time_of(daly_interval_s(cost, 1), cost);
    EXPECT_GE(daly, least * (1 - 1e-12));
    EXPECT_LE(daly, least * (cost < 0.5 ? 1 + 1e-5 : 1.002)) << cost;
  }
}

/// Daly's own figure for a cost that is small, and its limit; both scale with the units of time.
TEST(CheckpointInterval, OfYoungIsItsFirstOrder) {
  EXPECT_DOUBLE_EQ(young_interval_s(2, 100), 20);
  for (const double cost : {1e-2, 1e-4, 1e-6}) {
    const double ratio = daly_interval_s(cost, 1) / young_interval_s(cost, 1);
    EXPECT_NEAR(ratio, 1, std::sqrt(cost));
    EXPECT_NEAR(best_interval(cost) / daly_interval_s(cost, 1), 1, 1e-3);
    EXPECT_DOUBLE_EQ(daly_interval_s(3600 * cost, 3600), 3600 * daly_interval_s(cost, 1));
  }
  EXPECT_EQ(daly_interval_s(200, 100), 100);
  EXPECT_EQ(daly_interval_s(500, 100), 100);
}

/// Without failures (a large mean time between them) a run takes its work and its checkpoints.
TEST(CheckpointInterval, ExpectedTimeHasItsLimits) {
  EXPECT_NEAR(expected_time_s(1000, 100, 5, 60, 1e12), 1050, 1e-3);
  // With rare failures each costs the restart and half of a cycle.
  const double mtbf = 1e6, lost = 60 + 105 / 2.0;
  EXPECT_NEAR(expected_time_s(1000, 100, 5, 60, mtbf), 1050 * (1 + lost / mtbf), 1e-4);
}

TEST(CheckpointInterval, SimulatedRunsAskForCheckpointsByTheirIntervalAlone) {
  RunPlan plan;
  plan.checkpoint.every = 10;
  EXPECT_FALSE(writes_checkpoints(plan));
  plan.checkpoint.path = "folder";
  EXPECT_TRUE(writes_checkpoints(plan));
  plan.cluster.emplace();
  plan.checkpoint = {};
  EXPECT_FALSE(writes_checkpoints(plan));
  plan.checkpoint.every = 10;
  EXPECT_TRUE(writes_checkpoints(plan));
}

}  // namespace
}  // namespace ringside
