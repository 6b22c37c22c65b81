// Schemes with an algorithm of their own: the differences from the training run of `single`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/run/simulation.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/local_sgd.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using testing::definition_of;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::reference_of;
using testing::run;
using ::testing::SizeIs;
using testing::tiny;

ExperimentConfig plain_sgd() {
  auto config = tiny("gpt");
  config.optimizer.kind = "sgd";
  config.optimizer.momentum = 0;
  config.optimizer.lr = 0.1;
  config.train.steps = 12;
  return config;
}

RunPlan averaging(ExperimentConfig config, std::int64_t sync_every, int world) {
  config.scheme_options["local_sgd"] = peer::LocalSgdOptions{.sync_every = sync_every};
  return plan_training(config, "local_sgd", world);
}
RunRecord averaged(const ExperimentConfig& config, std::int64_t sync_every, int world) {
  return run(averaging(config, sync_every, world));
}

TEST(Independent, EachWorkerTrainsAsSingleDoesOnItsSamples) {
  // At world 1 there is one worker, so the scheme is `single`.
  const auto config = tiny("gpt");
  const RunRecord alone = run(plan_training(config, "independent", 1));
  const RunRecord single = run(plan_training(config, "single", 1));
  EXPECT_EQ(alone.parameter_hashes, single.parameter_hashes);
  EXPECT_EQ(alone.loss, single.loss);
  const RunRecord two = run(plan_training(config, "independent", 2));
  ASSERT_EQ(two.parameter_hashes.size(), 2u);
  EXPECT_NE(two.parameter_hashes[0], two.parameter_hashes[1]) << "they see other samples";
  for (const RankRecord& rank : two.ranks) EXPECT_EQ(rank.bytes_sent_per_step, 0) << rank.rank;
}

TEST(Averaging, InEveryStepWithPlainSgdAgreesWithSingleToRounding) {
  for (const int world : {2, 3, 4}) {
    const RunRecord row = averaged(plain_sgd(), 1, world);
    const RunRecord single = reference_of(plain_sgd(), world);
    EXPECT_LT(largest_difference(row.loss, single.loss), 1e-5) << world;
    EXPECT_NE(row.parameter_hashes[0], single.parameter_hashes[0]) << "but not to the bit";
    EXPECT_EQ(row.parameter_hashes,
              run(plan_definition(averaging(plain_sgd(), 1, world))).parameter_hashes);
  }
}

TEST(Averaging, LeavesReplicasApartBetweenTwoAveragings) {
  auto config = plain_sgd();
  for (const std::int64_t every : {1, 4, 16}) {
    const RunRecord row = averaged(config, every, 2);
    EXPECT_EQ(row.parameter_hashes[0], row.parameter_hashes[1]) << "the last step averages";
  }
  EXPECT_GT(largest_difference(averaged(config, 16, 2).loss, reference_of(config, 2).loss), 1e-5)
      << "which is another algorithm";
}

TEST(Averaging, SendsLessWithRarerAveragings) {
  auto config = plain_sgd();
  config.train.steps = 33;  // 32 measured steps
  const RunRecord every = averaged(config, 1, 2), rarely = averaged(config, 4, 2);
  EXPECT_NEAR(rarely.ranks[0].bytes_sent_per_step, every.ranks[0].bytes_sent_per_step * 9 / 32,
              1e-6 * every.ranks[0].bytes_sent_per_step)
      << "after steps 4, 8, ..., 32, and after the last one";
}

TEST(Averaging, SixteenBitsAverageTheMasterValues) {
  auto config = plain_sgd();
  config.train.precision = Precision::bf16;
  config.train.steps = 8;
  const RunRecord row = run(plan_training(config, "local_sgd", 3));
  const RunRecord definition = definition_of(config, "local_sgd", 3);
  EXPECT_EQ(row.parameter_hashes, definition.parameter_hashes);
  EXPECT_EQ(row.loss, definition.loss);
}

/// The throughput of averaging every 16 steps must count the averagings: on eight devices with a
/// slow network most of the time goes into them.
TEST(Averaging, HasTheThroughputOfAllStepsTogether) {
  auto config = tiny("gpt");
  config.model = {.layers = 4, .heads = 4, .width = 256, .context = 32};
  config.train.steps = 37;
  config.train.warmup = 5;  // 32 measured steps
  config.train.global_batch = 16;
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(8);
  const RunPlan plan = averaging(config, 16, 8);
  const RunRecord row = make_row(plan, simulate(plan, [](const Progress&) {}));
  double all_steps = 0;
  for (std::size_t s = 5; s < 37; ++s) all_steps += row.ranks[0].steps[s].total;
  EXPECT_NEAR(row.samples_per_s, 16 * 32 / all_steps, 0.01 * row.samples_per_s);
  EXPECT_GT(all_steps / 32, 1.05e-3 * row.step_ms.median) << "the median step has no averaging";
}

/// On a simulated device the times of the copy and of the blend are known: each reads and writes
/// the bytes of the parameters at half of 100 GB/s, and takes 2 us for the launch.
TEST(Averaging, CopyAndBlendAreEncoding) {
  auto config = plain_sgd();
  config.train.steps = 9;  // 8 measured steps
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(2);
  const RunPlan plan = averaging(config, 1, 2);
  const RunRecord row = make_row(plan, simulate(plan, [](const Progress&) {}));
  const double bytes = 4 * static_cast<double>(row.parameters);
  EXPECT_NEAR(row.time_ms.encoding, 1e3 * (4 * bytes / 50e9 + 4e-6), 1e-6);
  const auto& time = row.time_ms;
  EXPECT_NEAR(time.idle, 0, 1e-2 * row.step_ms.median) << "nothing else is left of a step";
}

RunPlan measured(ExperimentConfig config, int world) {
  config.scheme_options["local_sgd"] = peer::LocalSgdOptions{.sync_every = 4, .distance = true};
  return plan_training(config, "local_sgd", world);
}

TEST(AveragingWithDistance, ReportsTheFigureOfItsDefinition) {
  auto config = plain_sgd();
  config.train.steps = 10;  // averages after steps 4, 8 and 10
  for (const int world : {2, 3}) {
    const RunRecord row = run(measured(config, world));
    const RunRecord definition = run(plan_definition(measured(config, world)));
    ASSERT_EQ(row.figures.size(), 1u);
    ASSERT_EQ(definition.figures.size(), 1u);
    EXPECT_EQ(row.figures[0].name, "consensus distance");
    EXPECT_EQ(row.figures[0].unit, "relative");
    EXPECT_GT(row.figures[0].mean, 1e-5);
    EXPECT_LT(row.figures[0].mean, 1);
    EXPECT_GT(row.figures[0].max, row.figures[0].mean) << "replicas differ";
    EXPECT_NEAR(row.figures[0].mean / definition.figures[0].mean, 1, 1e-6) << world;
  }
  const RunRecord alone = run(measured(config, 1));
  ASSERT_EQ(alone.figures.size(), 1u);
  EXPECT_EQ(alone.figures[0].mean, 0) << "it is its own mean";
}

TEST(AveragingWithDistance, ReportsItsFigureThroughAWrapperToo) {
  const RunPlan plan = measured(plain_sgd(), 2);
  const SchemeInfo wrapped = testing::wrapping<testing::Wrapped>("local_sgd");
  EXPECT_THAT(run(plan, &wrapped).figures, SizeIs(1));
}

TEST(AveragingWithDistance, TrainsWithTheSameBitsAndTakesMoreMemory) {
  const auto config = plain_sgd();
  const RunRecord with = run(measured(config, 2)), without = averaged(config, 4, 2);
  EXPECT_TRUE(without.figures.empty());
  EXPECT_EQ(with.parameter_hashes, without.parameter_hashes);
  EXPECT_EQ(with.loss, without.loss);
  // One replica, and two sums of 19 doubles for each measurement that is not read at once.
  EXPECT_EQ(memory_peak(with) - memory_peak(without),
            4 * with.parameters + peer::ConsensusDistance::read_every * 2 * 19 * 8);
}

TEST(AveragingWithDistance, LeavesOutADistanceThatIsNotFinite) {
  auto config = plain_sgd();
  // The only step has a finite loss, and leaves infinite parameters behind.
  config.optimizer.lr = 1e38;
  config.optimizer.weight_decay = 100;
  config.train.steps = 1;
  config.train.warmup = 0;
  const RunRecord row = run(measured(config, 2));
  EXPECT_EQ(row.loss.size(), 1u);
  EXPECT_TRUE(row.figures.empty());
}

TEST(AveragingWithDistance, WithoutValuesHasNoFigureButTakesItsTime) {
  auto config = plain_sgd();
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(2);
  const auto row_of = [](const RunPlan& plan) {
    return make_row(plan, simulate(plan, [](const Progress&) {}));
  };
  const RunRecord with = row_of(measured(config, 2)), without = row_of(averaging(config, 4, 2));
  EXPECT_TRUE(with.figures.empty());
  EXPECT_LT(with.samples_per_s, 0.999 * without.samples_per_s);
}

TEST(OwnReplicas, RefuseWhatTheirDefinitionsDoNotSay) {
  for (const SchemeInfo* info : testing::defined_schemes()) {
    if (!info->own_replicas) continue;
    const std::string scheme(info->name);
    auto config = tiny("mlp");
    config.train.precision = Precision::fp16;
    EXPECT_THAT(complaint([&] { plan_training(config, scheme, 2); }),
                HasSubstr("scheme " + scheme + " does not train in fp16"));
    config = tiny("resnet");
    config.model.batch_norm_group = 2;
    EXPECT_THAT(complaint([&] { plan_training(config, scheme, 2); }),
                HasSubstr("model.batch_norm_group = 2: replicas of scheme " + scheme));
  }
  auto config = tiny("mlp");
  config.scheme_options["local_sgd"] = peer::LocalSgdOptions{.sync_every = 0};
  EXPECT_THAT(complaint([&] { plan_training(config, "local_sgd", 2); }),
              HasSubstr("scheme.local_sgd.sync_every = 0 must be more than 0"));
}

}  // namespace
}  // namespace ringside::runner
