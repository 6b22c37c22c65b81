// Checkpoints of simulated runs: their bytes, and the time that they take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/plan/checkpoint_interval.h"
#include "core/plan/definition.h"
#include "experiments/runner/run/cost_of_checkpoints.h"
#include "experiments/runner/run/simulated_faults.h"
#include "peer/schemes/local_sgd.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;
using testing::simulated;
using testing::small_cluster;
using testing::tiny;

/// fp32 AdamW on a machine of GPUs that writes 1 GB/s; a checkpoint every second step.
ExperimentConfig with_checkpoints(double gbs = 1) {
  ExperimentConfig config = simulated(tiny("gpt"), small_cluster(4));
  config.cluster->storage.gbs = gbs;
  config.checkpoint.every = 2;
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .partition_mb = 0.01};
  return config;
}

RunRecord run_with(const ExperimentConfig& config, const std::string& scheme, int world = 3) {
  return run(plan_training(config, scheme, world));
}

std::int64_t written(const RunRecord& row) {
  std::int64_t most = 0;
  for (const RankRecord& rank : row.ranks)
    if (rank.checkpoints) most = std::max(most, rank.checkpoints->written);
  return most;
}

/// Parameters and two moments of 4 bytes each, once, whoever has them; local_sgd's workers have a
/// model each.
TEST(SimulatedCheckpoints, HaveTwelveBytesAParameterUnderEveryScheme) {
  for (const bool numerics : {false, true})
    for (const char* scheme :
         {"single", "ddp", "fsdp", "zero1", "zero2", "dp", "ps", "local_sgd"}) {
      ExperimentConfig config = with_checkpoints();
      config.sim.numerics = numerics;
      const int world = std::string(scheme) == "single" ? 1 : 3;
      const RunRecord row = run_with(config, scheme, world);
      const std::int64_t models = std::string(scheme) == "local_sgd" ? world : 1;
      EXPECT_EQ(times_of_checkpoint(row).bytes, models * 12 * row.parameters) << scheme;
      EXPECT_EQ(written(row), 3) << scheme << ": after steps 2, 4 and 5";
    }
}

/// Stages save their parts, and a worker that is killed starts the run again from these.
TEST(SimulatedCheckpoints, OfPipelinesHaveTheStateOfAllStages) {
  for (const char* scheme : {"ddp", "fsdp", "zero1"}) {
    ExperimentConfig config = with_checkpoints();
    config.mesh.pipeline = 2;
    config.train.accumulation = 2;
    const RunRecord row = run_with(config, scheme, 4);
    EXPECT_EQ(times_of_checkpoint(row).bytes, 12 * row.parameters) << scheme;
    EXPECT_EQ(written(row), 3) << scheme;
    EXPECT_GT(seconds_to_read(row), 0);
    config.faults.plan = {"kill worker 3 at step 3"};
    config.faults.restarts = 1;
    const RunRecord struck = with_faults(run_with(config, scheme, 4));
    EXPECT_EQ(struck.parameter_hashes, row.parameter_hashes);
    EXPECT_EQ(struck.restarts.size(), 1u);
  }
}

/// Where workers do not wait for each other they meet for a checkpoint, and each adds the values of
/// the servers that it has, and a number of 8 bytes.
TEST(SimulatedCheckpoints, AreMetForWhereWorkersDoNotWait) {
  for (const bool numerics : {false, true}) {
    ExperimentConfig config = with_checkpoints();
    config.sim.numerics = numerics;
    config.train.steps = 8;
    ps::PsOptions options{.servers = 2, .consistency = ps::Consistency::asp};
    options.partition_mb = 0.01;
    config.scheme_options["ps"] = options;
    const RunRecord row = run_with(config, "ps");
    EXPECT_EQ(times_of_checkpoint(row).bytes, 12 * row.parameters + 3 * (4 * row.parameters + 8));
    EXPECT_EQ(written(row), 4);
    EXPECT_GT(seconds_to_read(row), 0);
  }
}

/// The bits, and the times of the steps themselves, are those of the run without.
TEST(SimulatedCheckpoints, ChangeNoStep) {
  for (const char* scheme : {"ddp", "fsdp", "ps"}) {
    ExperimentConfig config = with_checkpoints();
    config.sim.numerics = true;
    const RunRecord row = run_with(config, scheme);
    config.checkpoint.every = 0;
    const RunRecord without = run_with(config, scheme);
    EXPECT_EQ(row.parameter_hashes, without.parameter_hashes);
    EXPECT_NEAR(row.step_ms.median, without.step_ms.median, 0.05 * without.step_ms.median);
    for (const RankRecord& rank : without.ranks) EXPECT_FALSE(rank.checkpoints);
  }
}

/// Under ddp each of three ranks copies a third over its PCIe link (8 GB/s, 1 us); then the machine
/// writes all of it, at 10 GB/s.
TEST(SimulatedCheckpoints, TakeTheTimeOfTheirCopyAndOfTheirWrite) {
  ExperimentConfig config = with_checkpoints(10);
  RunRecord row = run_with(config, "ddp");
  const double bytes = 12.0 * static_cast<double>(row.parameters);
  const double copy_s = bytes / 3 / 8e9 + 1e-6, write_s = bytes / 1e10;
  CheckpointTimes times = times_of_checkpoint(row);
  EXPECT_NEAR(times.stall_s, copy_s, 1e-8);
  EXPECT_NEAR(times.write_s, write_s, 1e-8);
  config.checkpoint.asynchronous = false;
  times = times_of_checkpoint(run_with(config, "ddp"));
  EXPECT_NEAR(times.stall_s, copy_s + write_s, 2e-8);
  // Every worker reads all of it, through the machine's way and then its own link.
  EXPECT_NEAR(seconds_to_read(row), 3 * bytes / 1e10 + bytes / 8e9, 1e-9);
  row = run_with(with_checkpoints(10), "fsdp");
  EXPECT_NEAR(seconds_to_read(row), bytes / 1e10 + bytes / 3 / 8e9, 2e-3 * bytes / 1e10);
}

/// Where a write takes longer than two steps the next checkpoint waits for it, and says so.
TEST(SimulatedCheckpoints, WaitForTheOneBefore) {
  ExperimentConfig config = with_checkpoints(1e-4);
  config.train.steps = 9;
  config.checkpoint.every = 2;
  const RunRecord row = run_with(config, "ddp");
  const double bytes = 12.0 * static_cast<double>(row.parameters);
  const CheckpointTimes times = times_of_checkpoint(row);
  EXPECT_NEAR(times.write_s, bytes / 1e5, 1e-6);
  // After steps 2, 4, 6, 8 and 9: all but the first wait, less the steps in between.
  double beside_s = 0;
  for (std::size_t s = 2; s < 9; ++s) beside_s += row.ranks[0].steps[s].total;
  EXPECT_NEAR(5 * times.stall_s, 4 * bytes / 1e5 - beside_s + 5 * (bytes / 3 / 8e9 + 1e-6),
              1e-3 * bytes / 1e5);
}

TEST(SimulatedCheckpoints, AreRefusedWhereTheyCannotBe) {
  ExperimentConfig config = with_checkpoints();
  config.checkpoint.path = "a/folder/that/nobody/writes";
  EXPECT_EQ(plan_training(config, "ddp", 2).checkpoint.path, "");
  config.cluster->storage = {};
  EXPECT_THAT(complaint([&] { plan_training(config, "ddp", 2); }),
              HasSubstr("cluster small does not say how fast its machines write"));
}

/// A worker that is killed and not missed ends; the others end with the bits of the replay.
TEST(SimulatedFaults, WorkersThatMayBeLostAreLostInVirtualTime) {
  ExperimentConfig config = simulated(tiny("gpt"), small_cluster(4));
  config.sim.numerics = true;
  config.train.steps = 30;
  config.scheme_options["ps"] = ps::PsOptions{.servers = 1, .consistency = ps::Consistency::asp};
  config.faults.plan = {"kill worker 1 at step 10"};
  const RunPlan plan = plan_training(config, "ps", 3);
  const RunRecord row = with_faults(run(plan));
  ASSERT_EQ(row.status, "ok") << row.error;
  EXPECT_EQ(row.ranks[1].role, "lost");
  EXPECT_EQ(row.ranks[1].lost_after, 10);
  EXPECT_THAT(row.restarts, IsEmpty());
  std::vector<ChunkHistory> history;
  for (const RankRecord& rank : row.ranks)
    history.insert(history.end(), rank.history.begin(), rank.history.end());
  const RunRecord again = run(replay_of(plan, std::move(history), {1}));
  EXPECT_EQ(row.parameter_hashes, again.parameter_hashes);
  EXPECT_EQ(row.loss, again.loss);
}

TEST(SimulatedFaults, StopsAndSlowWorkersTakeTheirTime) {
  ExperimentConfig config = simulated(tiny("gpt"), small_cluster(4));
  const RunRecord without = run_with(config, "ddp");
  config.faults.plan = {"stop worker 1 at step 2 for 3 s", "slow worker 2 by 10 from step 4"};
  const RunRecord row = run_with(config, "ddp");
  for (std::size_t s : {0, 1, 3})
    EXPECT_NEAR(row.ranks[0].steps[s].total, without.ranks[0].steps[s].total, 1e-5) << s;
  EXPECT_NEAR(row.ranks[0].steps[2].total, 3 + without.ranks[0].steps[2].total, 1e-5);
  EXPECT_GT(row.ranks[0].steps[4].total, 2 * without.ranks[0].steps[4].total);
}

/// The figure of that name; -1: the record has none.
double figure(const RunRecord& row, const std::string& name) {
  for (const RunFigure& one : row.figures)
    if (one.name == name) return one.mean;
  return -1;
}

/// Of a real run too, from what its ranks measured; no interval is shorter than a write.
TEST(BestInterval, FollowsFromTheLongestStallOfARank) {
  RunRecord row;
  row.plan.train.global_batch = 10;
  row.samples_per_s = 20;
  row.ranks.resize(3);
  row.ranks[0].checkpoints = CheckpointCost{.written = 4, .bytes = 100, .stall_s = 8, .write_s = 4};
  row.ranks[2].checkpoints = CheckpointCost{.written = 4, .bytes = 50, .stall_s = 2, .write_s = 40};
  EXPECT_EQ(times_of_checkpoint(row).bytes, 150);
  add_best_interval(row, 3600);
  EXPECT_EQ(figure(row, "best interval (Young)"), young_interval_s(2, 3600));
  EXPECT_EQ(figure(row, "best interval (Daly)"), daly_interval_s(2, 3600));
  EXPECT_NEAR(figure(row, "best checkpoint.every"), daly_interval_s(2, 3600) / 0.5, 0.5);
  row.ranks[2].checkpoints->write_s = 4000;
  EXPECT_EQ(best_every(row, 3600), 1000 / 0.5);
  row.ranks.clear();
  EXPECT_EQ(best_every(row, 3600), 0);
}

/// Checkpoints after steps 2, 4, ..., and kills after steps 5 and 9: one step each is made again.
TEST(SimulatedFaults, KillsCostTheStepsSinceTheNewestCheckpointAndTheRestart) {
  ExperimentConfig config = with_checkpoints(10);
  config.train.steps = 12;
  config.cluster->failures.restart_s = 7;
  config.faults.restarts = 2;
  config.faults.plan = {"kill worker 1 at step 9", "kill worker 0 at step 5"};
  const RunRecord plain = run_with(config, "ddp");
  const RunRecord row = with_faults(plain);
  ASSERT_EQ(row.restarts.size(), 2u);
  EXPECT_EQ(row.restarts[0].from, 4);
  EXPECT_EQ(row.restarts[1].from, 8);
  EXPECT_EQ(row.restarts[1].lost_steps, 1);
  EXPECT_EQ(figure(row, "restarts"), 2);
  EXPECT_EQ(figure(row, "lost steps"), 2);
  const double step_s = seconds_of_step(row), read_s = seconds_to_read(row);
  EXPECT_NEAR(figure(row, "time to go on"), 7 + read_s + step_s, 0.1 * step_s);
  const double wall_s =
      11 * step_s + 6 * times_of_checkpoint(row).stall_s + 2 * (7 + read_s + step_s);
  EXPECT_NEAR(figure(row, "goodput"), 11 * 24 / wall_s, 0.01 * 11 * 24 / wall_s);
  EXPECT_NEAR(figure(row, "checkpoint"), 12e-6 * static_cast<double>(row.parameters), 1e-9);

  config.faults.restarts = 1;
  const RunRecord failed = with_faults(run_with(config, "ddp"));
  EXPECT_EQ(failed.status, "failed");
  EXPECT_THAT(failed.error, HasSubstr("rank 1 (worker) was killed on purpose after step 9"));

  config.checkpoint.every = 0;
  config.faults.restarts = 2;
  const RunRecord anew = with_faults(run_with(config, "ddp"));
  EXPECT_EQ(figure(anew, "lost steps"), 5 + 9);
}

/// A checkpoint that is not whole yet does not help: here a write takes longer than a step.
TEST(SimulatedFaults, GoOnFromCheckpointsThatAreWhole) {
  ExperimentConfig config = with_checkpoints(0.1);
  config.train.steps = 12;
  config.checkpoint.every = 4;
  config.faults.restarts = 1;
  const RunRecord probe = run_with(config, "ddp");
  const double step_s = seconds_of_step(probe);
  config.cluster->storage.gbs = 12.0 * static_cast<double>(probe.parameters) / (2.5 * step_s) / 1e9;
  for (const auto& [step, from] : {std::pair{10, 4}, {11, 8}}) {
    config.faults.plan = {fmt::format("kill worker 1 at step {}", step)};
    const RunRecord row = with_faults(run_with(config, "ddp"));
    ASSERT_EQ(row.restarts.size(), 1u);
    EXPECT_EQ(row.restarts[0].from, from) << step;
  }
}

/// GPUs fail once in 100 hours, the rest of a machine once in 40.
TEST(SimulatedFaults, FailuresOfAClusterFollowItsDevicesAndMachines) {
  ExperimentConfig config = simulated(tiny("gpt"), small_cluster(4));
  config.cluster->machines = 2;
  config.cluster->failures = {.device_mtbf_h = 100, .machine_mtbf_h = 40, .restart_s = 60};
  config.faults.rate = "cluster";
  const auto rates = [&](const std::string& scheme, int world) {
    return failures_of(plan_training(config, scheme, world));
  };
  const auto hours = [](double per_h) { return per_h / 3600; };
  const std::vector<sim::FailureKind> all = rates("ddp", 6);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].workers, 0);
  EXPECT_NEAR(all[0].per_s, hours(6 / 100.0 + 2 / 40.0), 1e-12);
  // One server on the host of machine 0: only failures there, and of worker 0, send all back.
  config.scheme_options["ps"] = ps::PsOptions{.servers = 1, .consistency = ps::Consistency::asp};
  const std::vector<sim::FailureKind> some = rates("ps", 6);
  ASSERT_EQ(some.size(), 3u);
  EXPECT_EQ(some[0].workers, 0);
  EXPECT_NEAR(some[0].per_s, hours(1 / 100.0 + 1 / 40.0), 1e-12);
  EXPECT_EQ(some[1].workers, 1);
  EXPECT_NEAR(some[1].per_s, hours(5 / 100.0), 1e-12);
  EXPECT_EQ(some[2].workers, 2) << "machine 1 has workers 4 and 5";
  EXPECT_NEAR(some[2].per_s, hours(1 / 40.0), 1e-12);
  config.faults.rate = "7/h";
  const std::vector<sim::FailureKind> kills = rates("ps", 6);
  ASSERT_EQ(kills.size(), 2u);
  EXPECT_NEAR(kills[0].per_s, hours(2), 1e-12) << "of the server and of worker 0";
  EXPECT_NEAR(kills[1].per_s, hours(5), 1e-12);
}

/// The predicted goodput of a run whose checkpoints hold it up is Daly's closed form.
TEST(SimulatedFaults, PredictTheGoodputOfManyHours) {
  ExperimentConfig config = with_checkpoints();
  config.checkpoint.asynchronous = false;
  config.checkpoint.every = 1000;
  config.train.steps = 5;
  config.cluster->failures = {.device_mtbf_h = 0.01, .restart_s = 0.5};
  config.faults.rate = "cluster";
  config.faults.hours = 0.5;
  const RunRecord row = with_faults(run_with(config, "ddp"));
  const double mtbf_s = 36.0 / 3, step_s = seconds_of_step(row);
  EXPECT_NEAR(figure(row, "time between failures") * 3600, mtbf_s, 1e-9);
  const double cost_s = times_of_checkpoint(row).stall_s, restart_s = 0.5 + seconds_to_read(row);
  const double share = 1 / expected_time_s(1, 1000 * step_s, cost_s, restart_s, mtbf_s);
  EXPECT_NEAR(figure(row, "predicted goodput, share"), share, 0.01);
  EXPECT_NEAR(figure(row, "best interval (Daly)"), daly_interval_s(cost_s, mtbf_s), 1e-9);
  const double best = figure(row, "best checkpoint.every");
  EXPECT_NEAR(best * step_s, daly_interval_s(cost_s, mtbf_s), step_s);
  const double best_share = 1 / expected_time_s(1, best * step_s, cost_s, restart_s, mtbf_s);
  EXPECT_NEAR(figure(row, "predicted goodput at the best interval"), best_share * 24 / step_s,
              0.01 * 24 / step_s);
  EXPECT_NEAR(figure(row, "predicted restarts"), 1800 / mtbf_s, 0.05 * 1800 / mtbf_s);
}

TEST(SimulatedFaults, WithoutARateAClusterMustSayHowOftenItFails) {
  ExperimentConfig config = simulated(tiny("gpt"), small_cluster(4));
  config.faults.rate = "cluster";
  EXPECT_THAT(complaint([&] { plan_training(config, "ddp", 2); }),
              HasSubstr("does not say how often its parts fail"));
  config.cluster.reset();
  config.device.kind = "cpu";
  EXPECT_THAT(complaint([&] { plan_training(config, "ddp", 2); }),
              HasSubstr("is for simulated clusters"));
}

}  // namespace
}  // namespace ringside::runner
