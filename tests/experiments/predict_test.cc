// Which runs are predicted.
#include "experiments/run/predict.h"

#include <gtest/gtest.h>

#include "tests/experiments/made_up_rows.h"
#include "tests/support/small_cluster.h"

namespace ringside {
namespace {

TEST(Predictions, AreNotMadeOfWorkersThatAreSlowed) {
  // Without a program nothing could be started: a prediction would say that.
  RankStart start;
  start.program.file = "/nowhere/ringside";
  start.interrupted = [] { return false; };
  Predictor predictor(CalibratedMachine{testing::small_cluster(2), 1}, start);
  RunPlan plan = plan_training(made_up_experiment(), "ddp", 2);
  plan.device.slow = {1, 3};
  EXPECT_FALSE(predictor.predict(plan));
  plan.device.slow.clear();
  plan.device.jitter = 0.5;
  EXPECT_FALSE(predictor.predict(plan));
}

}  // namespace
}  // namespace ringside
