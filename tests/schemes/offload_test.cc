// train.offload: the same bits as without it, on every scheme that can, and nothing of the
// optimizer left on the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "peer/fsdp/fsdp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using peer::Shard;
using ::testing::IsEmpty;
using testing::run;
using testing::tiny;
using testing::wrong_evaluations;
using testing::wrong_losses;
using testing::wrong_parameters;

struct OffloadCase {
  const char* scheme;
  int world;
  Offload offload = Offload::optimizer;
  Shard shard = Shard::full_shard;  // of fsdp
  int shard_group = 0;

  bool sharded() const { return scheme == std::string("fsdp"); }
};

constexpr OffloadCase offload_cases[] = {
    {"single", 1},
    {"ddp", 2},
    {"ddp", 4},
    {"fsdp", 4, Offload::optimizer, Shard::shard_optimizer},
    {"fsdp", 3, Offload::optimizer, Shard::shard_grad_op},
    {"fsdp", 1, Offload::optimizer},
    {"fsdp", 2, Offload::optimizer},
    {"fsdp", 4, Offload::optimizer, Shard::hybrid_shard, 2},
    {"fsdp", 1, Offload::parameters},
    {"fsdp", 3, Offload::parameters},
    {"fsdp", 4, Offload::parameters, Shard::hybrid_shard, 2},
};

class Offloading : public ::testing::TestWithParam<OffloadCase> {
 protected:
  static RunRecord row_of(ExperimentConfig config, Offload offload) {
    const OffloadCase& c = GetParam();
    config.train.offload = offload;
    if (c.sharded())
      config.scheme_options["fsdp"] =
          peer::FsdpOptions{.shard = c.shard, .shard_group = c.shard_group};
    return run(plan_training(config, c.scheme, c.world));
  }
  /// Trains with and without offload; returns the row without.
  static RunRecord expect_the_same_bits(const ExperimentConfig& config) {
    const RunRecord without = row_of(config, Offload::none),
                    with = row_of(config, GetParam().offload);
    EXPECT_THAT(wrong_parameters(with, without), IsEmpty());
    EXPECT_THAT(wrong_losses(with, without), IsEmpty());
    EXPECT_THAT(wrong_evaluations(with, without), IsEmpty());
    EXPECT_EQ(with.skipped_steps, without.skipped_steps);
    for (std::size_t r = 0; r < with.ranks.size(); ++r)
      EXPECT_EQ(with.ranks[r].bytes_sent_per_step, without.ranks[r].bytes_sent_per_step);
    return without;
  }
};

ExperimentConfig offloaded_resnet() {
  auto config = testing::tiny_resnet();
  config.train.steps = 3;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  config.optimizer.kind = "sgd";
  return config;
}

TEST_P(Offloading, KeepsTheBitsWithTiedTablesEvaluationsAndRecomputation) {
  auto config = testing::evaluating();
  config.model.tied = true;
  config.train.recompute = Recompute::full;
  expect_the_same_bits(config);
}

TEST_P(Offloading, KeepsTheBitsOfBatchNormsOverRanksBesideTheUpdatesOfLaterLayers) {
  auto config = offloaded_resnet();
  config.model.batch_norm_group = GetParam().world == 4 ? 2 : GetParam().world;
  expect_the_same_bits(config);
}

TEST_P(Offloading, KeepsTheBitsAndTheStatisticsOfBatchNormsOfSeveralMicroBatches) {
  auto config = offloaded_resnet();
  config.train.accumulation = 2;
  config.train.recompute = Recompute::full;
  config.optimizer.clip_norm = 0.5;
  expect_the_same_bits(config);
}

TEST_P(Offloading, KeepsTheBitsOfLambWithClippingInBf16AndMicroBatches) {
  auto config = testing::accumulating();
  config.train.precision = Precision::bf16;
  config.train.steps = 3;
  config.optimizer.kind = "lamb";
  config.optimizer.decay = Decay::matrices;
  config.optimizer.clip_norm = 0.5;
  expect_the_same_bits(config);
}

TEST_P(Offloading, KeepsTheBitsAndSkipsTheStepsOfFp16) {
  auto config = tiny("mlp");
  config.train.precision = Precision::fp16;
  config.train.steps = 12;
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 3;
  EXPECT_GT(expect_the_same_bits(config).skipped_steps, 0);
}

TEST_P(Offloading, HoldsOnTheHostWhatTheOptimizerNeedsToTheByte) {
  const OffloadCase& c = GetParam();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    auto config = tiny("mlp");
    config.train.steps = 2;
    config.train.precision = precision;
    const RunRecord with = row_of(config, c.offload), without = row_of(config, Offload::none);
    const std::int64_t element = precision == Precision::fp32 ? 4 : 2;
    const std::int64_t state = precision == Precision::fp32 ? 8 : 12;  // moments, masters
    for (std::size_t r = 0; r < with.ranks.size(); ++r) {
      const MemoryUse &device = with.ranks[r].at_peak, &before = without.ranks[r].at_peak;
      const MemoryUse& host = with.ranks[r].host_memory.value().at_peak;
      EXPECT_FALSE(without.ranks[r].host_memory);
      const std::int64_t own = before[MemoryKind::optimizer] / state;  // elements of its shards
      EXPECT_EQ(host[MemoryKind::optimizer], state * own);
      EXPECT_EQ(host[MemoryKind::parameter], element * own);
      EXPECT_EQ(host[MemoryKind::gradient], element * own);
      EXPECT_EQ(device[MemoryKind::optimizer], 0);
      EXPECT_EQ(device[MemoryKind::gradient], before[MemoryKind::gradient]);
      EXPECT_EQ(device[MemoryKind::parameter],
                c.offload == Offload::parameters ? 0 : before[MemoryKind::parameter]);
    }
  }
}

std::string name_of_offload_case(const ::testing::TestParamInfo<OffloadCase>& info) {
  const OffloadCase& c = info.param;
  return c.sharded() ? fmt::format("{}_{}_world_{}", name_of(c.offload), name_of(c.shard), c.world)
                     : fmt::format("{}_{}_world_{}", name_of(c.offload), c.scheme, c.world);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Offloading, ::testing::ValuesIn(offload_cases),
                         name_of_offload_case);

TEST(OffloadOfAPlan, IsRefusedWhereItMeansNothing) {
  auto config = tiny("mlp");
  const auto refused = [&](Offload offload, const char* scheme) {
    config.train.offload = offload;
    return testing::complaint([&] { plan_training(config, scheme, 1); });
  };

  for (const char* scheme : {"ps", "dp", "local_sgd", "independent"})
    EXPECT_THAT(refused(Offload::optimizer, scheme), ::testing::HasSubstr("leave it out"));
  EXPECT_THAT(refused(Offload::parameters, "ddp"),
              ::testing::HasSubstr("train.offload = 'parameters'"));
  EXPECT_THAT(refused(Offload::parameters, "zero2"),
              ::testing::HasSubstr("keeps parameters whole"));
  EXPECT_EQ(refused(Offload::parameters, "zero3"), "nothing");
}

TEST(OffloadOfAPlan, ItsDefinitionComputesOnTheDevice) {
  auto config = tiny("mlp");
  const RunPlan without = plan_training(config, "ddp", 2);
  config.train.offload = Offload::optimizer;
  const RunPlan plan = plan_training(config, "ddp", 2);
  EXPECT_TRUE(same_training(plan, without));
  EXPECT_FALSE(same_case(plan, without));
  EXPECT_EQ(plan_definition(plan).train.offload, Offload::none);
}

}  // namespace
}  // namespace ringside::runner
