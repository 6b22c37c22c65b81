// Samples of different lengths: every scheme trains as its definition, and what fills samples up
// changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/data/loader.h"
#include "core/device/cpu/cpu_device.h"
#include "peer/fsdp/fsdp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using testing::definition_of;
using ::testing::IsEmpty;
using testing::run;
using testing::tiny;
using testing::violations;

ExperimentConfig of_lengths(Packing packing) {
  auto config = tiny("gpt");
  config.model.context = 16;
  config.model.tied = true;
  config.data = {};
  config.data.kind = "synthetic-lengths";
  config.data.length_median = 6;
  config.data.length_sigma = 0.8;
  config.data.packing = packing;
  config.train.steps = 3;
  config.train.evaluate_every = 3;
  config.train.evaluate_batches = 2;
  config.optimizer.clip_norm = 0.5;
  return config;
}

using SchemeOnLengths = testing::SchemeAtWorld;

TEST_P(SchemeOnLengths, TrainsAsItsDefinition) {
  auto config = of_lengths(Packing::padded);
  config.train.accumulation = 2;
  EXPECT_THAT(violations(run(plan_of(config)), definition(config)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeOnLengths, testing::every_scheme_at({2, 3}),
                         testing::name_of_case);

TEST(OnDemandOnLengths, TrainsAsSingleInAllDtypes) {
  for (const Packing packing : {Packing::padded, Packing::packed})
    for (const Precision precision : {Precision::fp32, Precision::bf16})
      for (const int world : {2, 3, 4}) {
        auto config = of_lengths(packing);
        config.train.accumulation = world == 3 ? 1 : 2;
        config.train.precision = precision;
        config.scheme_options["fsdp"] = peer::FsdpOptions{.shard = peer::Shard::on_demand};
        const RunPlan plan = plan_training(config, "fsdp", world);
        EXPECT_FALSE(plan.sums.own_order);
        EXPECT_THAT(violations(run(plan), testing::reference_of(config, world)), IsEmpty())
            << name_of(packing) << " " << name_of(precision) << " world " << world;
      }
}

/// Micro-batches of one sample have nothing to fill up.
TEST(Lengths, FillingUpChangesNothingButRounding) {
  auto config = of_lengths(Packing::padded);
  config.train.accumulation = 1;
  const RunRecord filled = run(plan_training(config, "single", 1));
  config.train.accumulation = 24;
  const RunRecord tight = run(plan_training(config, "single", 1));
  EXPECT_LT(testing::largest_difference(filled.loss, tight.loss), 1e-5);
  ASSERT_EQ(filled.evaluations.size(), 1u);
  EXPECT_NEAR(filled.evaluations[0].loss, tight.evaluations[0].loss, 1e-5);
  EXPECT_NEAR(filled.evaluations[0].accuracy, tight.evaluations[0].accuracy, 1e-6);
  EXPECT_NEAR(filled.loss[0], std::log(256.0), 0.1) << "a mean over tokens, before it has learnt";
}

TEST(Lengths, OnlyRealTokensCount) {
  const auto config = of_lengths(Packing::padded);
  const RunPlan plan = plan_training(config, "ddp", 2);
  const RunRecord row = run(plan);
  const auto device = make_cpu_device(1);
  const auto data = find_dataset(plan.data.kind).make(plan.data, plan.model, Task::every_token);
  const Loader loader(*data.training, *device, plan.train.global_batch,
                      static_cast<std::uint64_t>(plan.train.seed));
  std::int64_t tokens = 0;
  for (std::int64_t step = plan.train.warmup; step < plan.train.steps; ++step)
    tokens += loader.targets({step, 0, plan.train.global_batch});
  const double samples =
      static_cast<double>((plan.train.steps - plan.train.warmup) * plan.train.global_batch);
  EXPECT_NEAR(row.tokens_per_s / row.samples_per_s, static_cast<double>(tokens) / samples, 1e-9);
  const RunRecord packed = run(plan_training(of_lengths(Packing::packed), "ddp", 2));
  EXPECT_NEAR(packed.tokens_per_s / packed.samples_per_s, 16, 1e-9);
}

}  // namespace
}  // namespace ringside::runner
