// Pipelines on GPUs, over NCCL's send and receive: they have the bits of `single` on one GPU.
#include <gtest/gtest.h>

#include "tests/cuda/tiny_on_gpus.h"

namespace ringside::testing {
namespace {

struct PipelineOnGpus {
  const char* schedule;
  int pipeline, data;
  std::int64_t chunks;
};

void PrintTo(const PipelineOnGpus& tried, std::ostream* out) {
  *out << tried.schedule << " " << tried.data << "x" << tried.pipeline;
}

class PipelinesOnGpus : public ::testing::TestWithParam<PipelineOnGpus> {};

/// With one worker along the data dimension no sum is NCCL's, whose order is its own.
TEST_P(PipelinesOnGpus, AreTheRunOfSingle) {
  const PipelineOnGpus& tried = GetParam();
  auto config = tiny_on_gpus("gpt");
  config.model.layers = 3;
  config.model.tied = true;
  config.train.global_batch = 16;
  config.train.accumulation = 4;
  config.train.evaluate_every = 3;
  config.train.evaluate_batches = 1;
  const RunRecord single = reference_of(config, tried.data);
  config.mesh.pipeline = tried.pipeline;
  config.pipeline.schedule = tried.schedule;
  config.pipeline.chunks = tried.chunks;
  const RunRecord row = run(runner::plan_training(config, "ddp", tried.pipeline * tried.data));
  EXPECT_LT(largest_difference(row.loss, single.loss), 1e-5);
  if (tried.data > 1) return;
  EXPECT_EQ(row.parameter_hashes, single.parameter_hashes);
  EXPECT_EQ(row.loss, single.loss);
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelinesOnGpus,
                         ::testing::Values(PipelineOnGpus{"1f1b", 2, 1, 1},
                                           PipelineOnGpus{"interleaved", 2, 1, 2},
                                           PipelineOnGpus{"zb_v", 2, 1, 2},
                                           PipelineOnGpus{"zb_h1", 2, 2, 1}),
                         [](const auto& info) {
                           return fmt::format("{}_data_{}", info.param.schedule, info.param.data);
                         });

/// The update goes ahead of the sums over stages, which clip gradients in some of the steps.
TEST(PipelinesOnGpusTest, WithOptimizersThatGoAheadAreTheRunOfSingle) {
  auto config = tiny_on_gpus("gpt");
  config.model.layers = 3;
  config.train.global_batch = 16;
  config.train.accumulation = 4;
  config.train.warmup = 0;  // before its end updates are validated at once
  std::int64_t put_right = 0;
  for (const double clip_norm : {0.5, 0.7, 1.0, 1.4, 2.0}) {
    config.optimizer.clip_norm = clip_norm;
    config.mesh.pipeline = 1;
    const RunRecord single = reference_of(config, 1);
    config.mesh.pipeline = 2;
    config.pipeline.schedule = "zb_h2";
    config.pipeline.post_validation = true;
    const RunRecord row = run(runner::plan_training(config, "ddp", 2));
    EXPECT_EQ(row.parameter_hashes, single.parameter_hashes) << clip_norm;
    EXPECT_EQ(row.loss, single.loss) << clip_norm;
    put_right += row.ranks[0].pipeline->put_right;
  }
  EXPECT_GT(put_right, 0);
}

}  // namespace
}  // namespace ringside::testing
