// The runs that are predicted.
#include "experiments/runner/run/predict.h"

#include <gtest/gtest.h>

#include "core/plan/places.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

TEST(Predictions, AreNotMadeOfWorkersThatAreSlowed) {
  // Without a program nothing could be started: a prediction would say that.
  RankStart start;
  start.program.file = "/nowhere/ringside";
  start.interrupted = [] { return false; };
  Predictor predictor(CalibratedMachine{testing::small_cluster(2)}, start);
  RunPlan plan = plan_training(made_up_experiment(), "ddp", 2);
  plan.device.slow = {1, 3};
  EXPECT_FALSE(predictor.predict(plan));
  plan.device.slow.clear();
  plan.device.jitter = 0.5;
  EXPECT_FALSE(predictor.predict(plan));
}

TEST(Predictions, OfRunsOnSeveralHostsHaveAMachineForEachHost) {
  RunPlan measured = plan_training(made_up_experiment(), "ps", 2);
  ASSERT_EQ(measured.ranks.size(), 4U);
  measured.homes = {
      {"a", "10.0.0.1", 0}, {"b", "10.0.0.2", 2}, {"b", "10.0.0.2", 2}, {"c", "10.0.0.3", 3}};
  sim::ClusterSpec hosts = testing::small_cluster(1);
  hosts.machines = 3;
  const RunPlan plan = prediction_plan(measured, hosts);
  const std::vector<int> machines = {0, 1, 1, 2};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(place_of(plan, rank), (sim::Place{machines[static_cast<std::size_t>(rank)], 0}));
  EXPECT_EQ(machines_of_workers(plan), 2);
}

TEST(Predictions, AreNotMadeOfRunsBetweenWhoseHostsAnotherLibraryMovesValues) {
  RankStart start;
  start.interrupted = [] { return false; };
  Predictor predictor(CalibratedMachine{testing::small_cluster(2)}, start);
  RunPlan plan = plan_training(made_up_experiment(), "ddp", 2);
  plan.homes = {{"a", "10.0.0.1", 0}, {"b", "10.0.0.2", 1}};
  plan.hosts.between = InterHostBackend::openmpi;
  EXPECT_FALSE(predictor.predict(plan));
}

}  // namespace
}  // namespace ringside::runner
