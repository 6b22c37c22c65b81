// Timed operations of an experiment's models, and which of them a prediction takes.
#include "experiments/tools/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/launch/local_host.h"
#include "core/plan/lone_training.h"
#include "experiments/runner/run/predict.h"
#include "experiments/runner/run/timed_flats.h"
#include "experiments/runner/run/timed_steps.h"
#include "experiments/tools/calibrate/timed_training.h"
#include "peer/comm/gloo/wire.h"
#include "tests/experiments/program_test.h"

namespace ringside::tools::calibrate {
namespace {

using ::testing::HasSubstr;

RunPlan tiny_run() {
  RunPlan run;
  run.scheme = "ddp";
  run.world = 2;
  run.model = {.kind = "mlp", .layers = 1, .width = 16, .context = 4};
  run.data.kind = "synthetic";
  run.data.holdout = 0;
  run.train.global_batch = 8;
  run.train.micro_batch = 4;
  run.ranks = {{0, 0, -1}, {1, 1, -1}};
  return run;
}

TEST(LoneTraining, IsTheSameForRunsWhoseWorkersDoTheSame) {
  const RunPlan run = tiny_run();
  RunPlan other = run;
  other.scheme = "ps";
  other.world = 4;
  other.train.global_batch = 16;
  other.train.steps = 99;
  other.train.seed = 7;
  EXPECT_EQ(lone_training_name(run), lone_training_name(other));
  EXPECT_EQ(lone_training(run).train.global_batch, 4);
  EXPECT_EQ(lone_training_name(run).size(), 16u);
  other.optimizer.kind = "sgd";
  EXPECT_NE(lone_training_name(run), lone_training_name(other));
  other = run;
  other.train.micro_batch = 2;
  EXPECT_NE(lone_training_name(run), lone_training_name(other));
  other = run;
  other.train.precision = Precision::bf16;
  EXPECT_NE(lone_training_name(run), lone_training_name(other));
  RunPlan converted = other;
  converted.train.reduce_precision = ReducePrecision::fp32;
  EXPECT_NE(lone_training_name(converted), lone_training_name(other));
}

/// A run is started as the program starts one.
runner::RankStart start() {
  return {.program = {.file = RINGSIDE_PROGRAM, .arguments = {"rank"}, .environment = {}},
          .interrupted = [] { return false; }};
}

CalibrationSite here() { return {.start = start(), .cores = 2, .slots = 2}; }

TEST(TimedTraining, HasEveryOperationOfAStep) {
  std::set<OpClass> classes;
  for (const TimedOp& op : time_training(lone_training(tiny_run()), 1)) {
    EXPECT_GE(op.seconds, 0);
    EXPECT_GE(op.before, 0);
    classes.insert(op.cost.kind);
  }
  for (const OpClass kind : {OpClass::linear, OpClass::optimizer, OpClass::loss})
    EXPECT_TRUE(classes.contains(kind)) << name_of(kind);
}

TEST(TimedTraining, LeavesOutStepsWithoutAnUpdate) {
  const auto step = [](std::size_t ops, double seconds) {
    return std::vector<TimedOp>(ops, {.cost = {}, .seconds = seconds});
  };
  std::vector<std::vector<TimedOp>> steps = {step(2, 1), step(3, 2), step(2, 3), step(3, 4)};
  runner::leave_out_short(steps);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0][2].seconds, 2);
  EXPECT_EQ(steps[1][2].seconds, 4);
  RunPlan plan = lone_training(tiny_run());
  plan.train.precision = Precision::fp16;
  EXPECT_FALSE(time_training(plan, 1).empty());
}

TEST(TimedRun, HasTheTimesOfEveryRank) {
  const RunRecord row = timed_run(lone_training(tiny_run()), 2, {}, here());
  ASSERT_EQ(row.ranks.size(), 2u);
  std::set<std::string> classes;
  for (const RankRecord& rank : row.ranks) {
    EXPECT_EQ(rank.operations.size(), row.ranks[0].operations.size());
    EXPECT_EQ(rank.steps.size(), 2u + 9u);
    EXPECT_FALSE(rank.pieces.empty());
    for (const sim::TimedOperation& op : rank.operations) {
      EXPECT_GT(op.us, 0);
      classes.insert(op.kind);
    }
  }
  for (const OpClass kind : {OpClass::linear, OpClass::optimizer, OpClass::loss})
    EXPECT_TRUE(classes.contains(std::string(name_of(kind)))) << name_of(kind);
  const RunRecord again = timed_run(lone_training(tiny_run()), 1, {.repeat = 1}, here());
  EXPECT_FALSE(again.ranks.at(0).operations.empty());
  EXPECT_TRUE(again.ranks.at(0).pieces.empty()) << "the first repeat times them";
}

TEST(TimedRun, FailsWithTheErrorOfARankThatCannotTrain) {
  RunPlan training = lone_training(tiny_run());
  training.optimizer.lr = 1e30;
  EXPECT_THROW(timed_run(training, 2, {.steps = 20}, here()), Error);
}

/// Two hosts that are this one: ranks that believe that they live apart meet over the network.
TEST(TimedLinks, HaveFiguresOfTheNetworkAndOfTheHost) {
  if (const std::string missing = peer::why_no_gloo(); !missing.empty()) GTEST_SKIP() << missing;
  LocalHost host(start().program);
  CalibrationSite site = here();
  site.hosts = 2;
  site.start.agents.hosts = {&host};
  site.place = [](RunPlan& run) {
    for (std::size_t r = 0; r < run.ranks.size(); ++r)
      run.homes.push_back({r % 2 == 0 ? "a" : "b", "127.0.0.1", 0});
  };
  sim::ClusterSpec cluster;
  measure_network(cluster, 1, site);
  EXPECT_EQ(cluster.machines, 2);
  EXPECT_GT(cluster.nic.gbs, 0.01);
  EXPECT_GT(cluster.nic.step_us, 1);
  EXPECT_LT(cluster.nic.step_us, 1e5);
  // Core times are differences, which may vanish where other programs take the cores.
  EXPECT_GE(cluster.collective.network_us_per_mb, 0);
  EXPECT_GE(cluster.message.network_us, 0);
  EXPECT_GE(cluster.message.loopback_us, 0);
  EXPECT_LT(cluster.message.network_us, 1e5);
}

TEST(TimedFlats, AreCopiesSumsAndUpdatesOfPiecesOfEverySize) {
  RunPlan run = lone_training(tiny_run());
  run.optimizer.kind = "adamw";
  TimedDevice device(make_cpu_device(1));
  int meetings = 0;
  const auto ops = runner::time_flats(run, device, 5 * runner::smallest_piece, [&] { ++meetings; });
  EXPECT_EQ(meetings, 2 * 3) << "two sizes of pieces, of which each is copied, added and updated";
  for (const double piece : {1.0 * runner::smallest_piece, 4.0 * runner::smallest_piece}) {
    const auto timed = [&](OpClass kind, double bytes) {
      return std::count_if(ops.begin(), ops.end(), [&](const TimedOp& op) {
        return op.cost.kind == kind && op.cost.bytes == bytes && op.seconds > 0;
      });
    };
    EXPECT_EQ(timed(OpClass::elementwise, 2 * 4 * piece), 1) << "a copy reads and writes";
    EXPECT_EQ(timed(OpClass::elementwise, 3 * 4 * piece), 1) << "a sum reads two and writes one";
    // AdamW reads the gradient, and reads and writes parameters and two moments.
    EXPECT_EQ(timed(OpClass::optimizer, 7 * 4 * piece), 1);
  }
}

TEST(MeasuredModels, HaveEveryOperationOfAStepOnceForEachTraining) {
  sim::ClusterSpec cluster;
  cluster.device.cores = 2;
  RunPlan other = tiny_run(), half = tiny_run();
  other.scheme = "single";
  half.train.micro_batch = 2;
  measure_models(cluster, {tiny_run(), other, half}, here());
  std::set<std::tuple<std::string, std::string, double, double>> keys;
  std::set<std::string> trainings;
  for (const sim::TimedOperation& one : cluster.timed) {
    EXPECT_TRUE(keys.emplace(one.training, one.kind, one.operations, one.bytes).second);
    trainings.insert(one.training);
    EXPECT_EQ(one.dtype, "fp32");
    EXPECT_GT(one.us, 0);
    EXPECT_GE(one.memory_us, 0);
    EXPECT_LE(one.memory_us, one.us);
  }
  EXPECT_EQ(trainings,
            (std::set<std::string>{lone_training_name(tiny_run()), lone_training_name(half)}));
}

TEST(Prediction, TakesTheTimesOfItsOwnTrainingFirst) {
  const RunPlan run = tiny_run();
  const std::string own = lone_training_name(run);
  sim::ClusterSpec machine;
  machine.timed = {{"another", "fp32", "linear", 8, 4, 1},
                   {own, "fp32", "linear", 8, 4, 3, 2},
                   {"another", "fp32", "linear", 16, 8, 4}};
  const std::vector<sim::TimedOperation> expected = {machine.timed[1], machine.timed[2]};
  EXPECT_EQ(runner::prediction_plan(run, machine).cluster->timed, expected);
}

class CalibrateCommand : public ProgramTest {};

TEST_F(CalibrateCommand, RefusesFilesOfWhichNothingRunsHere) {
  folder_.write("trial.toml",
                "[device]\nkind = \"cpu\"\nthreads = 2\n[data]\nkind = \"synthetic\"\n");
  EXPECT_THAT(run({"calibrate", "trial.toml"}).err,
              HasSubstr("trial.toml: no run of it computes on this machine's processor with 1 "
                        "thread a rank"));
  EXPECT_THAT(run({"calibrate", "absent.toml"}).err, HasSubstr("absent.toml"));
  EXPECT_EQ(run({"calibrate", "trial.toml", "--from", "links.toml"}).status, 2);
}

}  // namespace
}  // namespace ringside::tools::calibrate
