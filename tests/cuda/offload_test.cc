// train.offload on GPUs: gradients come to the host through pinned memory, and parameters go back
// beside compute.
#include <gtest/gtest.h>

#include "peer/fsdp/fsdp.h"
#include "tests/cuda/tiny_on_gpus.h"

namespace ringside::testing {
namespace {

struct Case {
  const char* scheme;
  int world;
  Offload offload = Offload::optimizer;
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const auto& [scheme, world, offload] = info.param;
  return fmt::format("{}_world_{}_{}", scheme, world, name_of(offload));
}

class OffloadOnGpus : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Schemes, OffloadOnGpus,
                         ::testing::Values(Case{"single", 1}, Case{"ddp", 2}, Case{"zero1", 2},
                                           Case{"zero3", 2}, Case{"zero3", 1, Offload::parameters},
                                           Case{"zero3", 3, Offload::parameters}),
                         name_of_case);

TEST_P(OffloadOnGpus, TrainsAsSingleDoesAndKeepsNoStateOnTheGpu) {
  const auto& [scheme, world, offload] = GetParam();
  for (const double clip_norm : {0.0, 0.5}) {
    auto config = tiny_on_gpus("mlp");
    config.optimizer.clip_norm = clip_norm;
    const RunRecord reference = reference_of(config, world);
    config.train.offload = offload;
    const RunRecord row = run(runner::plan_training(config, scheme, world));
    EXPECT_LT(runner::largest_difference(row.loss, reference.loss), 1e-5);
    for (const RankRecord& rank : row.ranks) {
      EXPECT_EQ(rank.at_peak[MemoryKind::optimizer], 0);
      EXPECT_GT(rank.host_memory.value().at_peak[MemoryKind::optimizer], 0);
      EXPECT_EQ(rank.at_peak[MemoryKind::parameter] == 0, offload == Offload::parameters);
    }
  }
}

TEST(OffloadInFp16OnGpus, SkipsTheStepsOfFp16ThatSingleSkips) {
  auto config = tiny_on_gpus("mlp");
  config.train.precision = Precision::fp16;
  config.train.steps = 12;
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 6;
  const RunRecord without = run(runner::plan_training(config, "single", 1));
  config.train.offload = Offload::optimizer;
  const RunRecord with = run(runner::plan_training(config, "single", 1));
  EXPECT_GT(without.skipped_steps, 0);
  EXPECT_EQ(with.skipped_steps, without.skipped_steps);
}

}  // namespace
}  // namespace ringside::testing
