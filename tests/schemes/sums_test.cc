// Updates that want sums over the whole model first, under every scheme: clipping, fp16, LAMB.
#include <gtest/gtest.h>

#include "peer/fsdp/fsdp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using testing::definition_of;
using testing::largest_difference;
using testing::reference_of;
using testing::run;
using testing::tiny;

class SchemeSums : public testing::SchemeAtWorld {
 protected:
  void expect_the_bits_of_the_definition(const ExperimentConfig& config) const {
    const RunRecord row = run(plan_of(config));
    const RunRecord reference = definition(config);
    EXPECT_EQ(row.parameter_hashes, reference.parameter_hashes);
    EXPECT_LT(largest_difference(row.loss, reference.loss), 1e-12);
  }
};

class ExactSchemeSums : public SchemeSums {};

TEST_P(SchemeSums, ClippedGradientsEndWithTheBitsOfTheDefinition) {
  if (!tried().info->optimizer.empty()) GTEST_SKIP() << "it clips no gradients";
  auto config = tiny("gpt");
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 0.1;
  const auto free = definition(config).parameter_hashes;
  config.optimizer.clip_norm = 0.5;
  EXPECT_NE(definition(config).parameter_hashes, free) << "it clips";
  expect_the_bits_of_the_definition(config);
  config.scheme_options["ps"] = ps::PsOptions{.servers = 3};
  config.train.accumulation = 2;
  config.train.reduce = Reduce::last;
  expect_the_bits_of_the_definition(config);
}

TEST_P(SchemeSums, LambEndsWithTheBitsOfTheDefinition) {
  auto config = tiny("gpt");
  config.optimizer.kind = "lamb";
  config.optimizer.decay = Decay::matrices;
  expect_the_bits_of_the_definition(config);
  config.optimizer.clip_norm = 0.5;
  expect_the_bits_of_the_definition(config);
}

TEST_P(SchemeSums, DecayGroupsAndScaledRatesEndWithTheBitsOfTheDefinition) {
  auto config = tiny("mlp");
  config.optimizer.decay = Decay::matrices;
  config.optimizer.lr_scaling = LrScaling::sqrt;
  config.optimizer.schedule = Schedule::step;
  config.optimizer.step_every = 2;
  expect_the_bits_of_the_definition(config);
}

/// With fp16 the gradient of the loss is scaled: it is the loss scale, 2^16, divided by the global
/// batch of 24. At this learning rate the weights become so large that gradients overflow in some
/// steps.
TEST_P(ExactSchemeSums, AnOverflowSkipsTheStepOnAllRanks) {
  auto config = tiny("mlp");
  config.train.precision = Precision::fp16;
  config.train.steps = 12;
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 3;
  const RunPlan plan = plan_of(config);
  const auto records = run_ranks_as_threads(plan);
  EXPECT_GT(records[0].skipped_steps, 0);
  EXPECT_LT(records[0].skipped_steps, config.train.steps);
  for (const RankRecord& record : records)
    if (plan.ranks[static_cast<std::size_t>(record.rank)].worker >= 0) {
      EXPECT_EQ(record.skipped_steps, records[0].skipped_steps) << record.rank;
    }
  expect_the_bits_of_the_definition(config);
}

TEST_P(ExactSchemeSums, ReducingAtEveryMicroBatchAgreesToRounding) {
  auto config = tiny("mlp");
  config.train.accumulation = 3;
  config.train.global_batch = 36;
  config.train.reduce = Reduce::every;
  const RunRecord every = run(plan_of(config));
  config.train.reduce = Reduce::last;
  const RunRecord last = run(plan_of(config));
  const RunRecord reference = reference_of(config, world());
  EXPECT_EQ(last.parameter_hashes, reference.parameter_hashes);
  EXPECT_EQ(every.parameter_hashes == last.parameter_hashes, world() == 1);
  EXPECT_LT(largest_difference(every.loss, last.loss), 1e-5);
  config.train.reduce = Reduce::every;
  const RunRecord fsdp = run(plan_training(config, "fsdp", world()));
  EXPECT_EQ(every.parameter_hashes, fsdp.parameter_hashes) << "one tree for all schemes";
  config.train.accumulation = 1;
  const RunRecord whole = run(plan_of(config));
  EXPECT_LT(largest_difference(every.loss, whole.loss), 1e-5);
}

TEST_P(SchemeSums, ATiedTableEndsWithTheBitsOfTheDefinition) {
  auto config = tiny("gpt");
  config.model.tied = true;
  expect_the_bits_of_the_definition(config);
  if (scheme() != "fsdp") return;
  for (const peer::FsdpOptions& options :
       {peer::FsdpOptions{.prefetch = 0, .read_in_place = false},
        peer::FsdpOptions{.prefetch = 2, .read_in_place = false},
        peer::FsdpOptions{.reshard_after_forward = false, .read_in_place = false},
        peer::FsdpOptions{.min_unit_parameters = 9'000, .read_in_place = false},
        peer::FsdpOptions{.min_unit_parameters = 9'000},
        peer::FsdpOptions{.min_unit_parameters = 1'000'000, .read_in_place = false}}) {
    config.scheme_options["fsdp"] = options;
    expect_the_bits_of_the_definition(config);
  }
}

TEST(FsdpWithATiedTable, GathersItOnceMoreForItsReaderUnlessItIsStillThere) {
  auto config = tiny("gpt");
  config.model.tied = true;
  config.train.accumulation = 2;
  for (const Reduce reduce : {Reduce::every, Reduce::last})
    for (const bool reshard : {false, true}) {
      config.train.reduce = reduce;
      config.scheme_options["fsdp"] = peer::FsdpOptions{.reshard_after_forward = reshard};
      const RunRecord row = run(plan_training(config, "fsdp", 2));
      EXPECT_NEAR(row.ranks[0].bytes_sent_per_step, row.bytes_minimum_per_step,
                  0.01 * row.bytes_minimum_per_step);
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeSums, testing::every_scheme_at({1, 2, 3, 4}, 3),
                         testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Registry, ExactSchemeSums, testing::every_exact_scheme_at({1, 2, 3, 4}),
                         testing::name_of_case);

}  // namespace
}  // namespace ringside::runner
