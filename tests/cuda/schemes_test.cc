// Schemes of peers on GPUs, over NCCL: they train as `single` does, and their steps ask the driver
// for nothing that blocks.
#include <gtest/gtest.h>

#include <thread>

#include "core/models/idefics3.h"
#include "experiments/runner/plan/measurements.h"
#include "experiments/runner/report/verdict.h"
#include "experiments/runner/run/measure_speeds.h"
#include "peer/fsdp/fsdp.h"
#include "tests/cuda/tiny_on_gpus.h"
#include "tests/cuda_on_host/control.h"
#include "tests/support/measured_speeds.h"

namespace ringside::testing {
namespace {

class PeersOnGpus : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string scheme() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }

  /// How far the losses are from those of `single` on the same device.
  double distance(const runner::ExperimentConfig& config) const {
    const RunRecord row = run(runner::plan_training(config, scheme(), world()));
    EXPECT_EQ(row.parameter_hashes.at(0).size(), 32u);
    return runner::largest_difference(row.loss, reference_of(config, world()).loss);
  }
};
std::string name_of_peers(const ::testing::TestParamInfo<PeersOnGpus::ParamType>& info) {
  return std::get<0>(info.param) + "_world_" + std::to_string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Worlds, PeersOnGpus,
                         ::testing::Combine(::testing::Values("ddp", "fsdp"),
                                            ::testing::Values(1, 2, 3, 4)),
                         name_of_peers);

class PeersInSteadySteps : public PeersOnGpus {};
INSTANTIATE_TEST_SUITE_P(Worlds, PeersInSteadySteps,
                         ::testing::Combine(::testing::Values("ddp", "fsdp"),
                                            ::testing::Values(2, 3)),
                         name_of_peers);
INSTANTIATE_TEST_SUITE_P(Degrees, PeersInSteadySteps,
                         ::testing::Combine(::testing::Values("zero1"), ::testing::Values(2)),
                         name_of_peers);

TEST_P(PeersOnGpus, TrainAGptAsSingleDoes) { EXPECT_LT(distance(tiny_on_gpus("gpt")), 1e-5); }

TEST_P(PeersOnGpus, TrainAnMlpInMicroBatchesAsSingleDoes) {
  auto config = tiny_on_gpus("mlp");
  config.train.global_batch = 24;
  config.train.accumulation = 2;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  EXPECT_LT(distance(config), 1e-5);
}

TEST_P(PeersOnGpus, TrainInBf16AsSingleDoes) {
  auto config = tiny_on_gpus("gpt");
  config.train.precision = Precision::bf16;
  config.train.steps = 3;
  EXPECT_LT(distance(config), 2e-2);
}

TEST(AttentionOnGpus, IsMadeAgainWithTheSameBitsInLessMemory) {
  const std::pair<std::string, std::string> models[] = {{"gpt", "synthetic"},
                                                        {"llama", "synthetic"},
                                                        {"bert", "synthetic-masked"},
                                                        {"idefics3", "synthetic-captions"},
                                                        {"t5", "synthetic-pairs"}};
  for (const auto& [model, data] : models) {
    auto config = tiny_on_gpus(model);
    config.data.kind = data;
    config.model.layers = 3;
    config.model.width = 12;
    config.model.hidden = 16;
    config.model.dropout = 0.2;
    config.model.masked = 2;
    config.model.image = 5;
    config.model.own<Idefics3Options>() = {
        .patch = 2, .vision_layers = 1, .vision_heads = 2, .vision_width = 6, .vision_hidden = 8};
    config.train.precision = Precision::bf16;
    config.train.steps = 2;
    config.train.global_batch = 4;
    for (const std::string scheme : {"single", "ddp", "fsdp"}) {
      if (model != "gpt" && scheme != "fsdp") continue;  // which does what the others do, and more
      const int world = scheme == "single" ? 1 : 2;
      const auto row_with = [&](Recompute recompute) {
        config.train.recompute = recompute;
        return run(runner::plan_training(config, scheme, world));
      };
      const RunRecord kept = row_with(Recompute::none), again = row_with(Recompute::attention);
      EXPECT_EQ(again.loss, kept.loss) << model << " under " << scheme;
      EXPECT_EQ(again.parameter_hashes, kept.parameter_hashes) << model << " under " << scheme;
      EXPECT_LT(again.ranks[0].at_peak[MemoryKind::activation],
                kept.ranks[0].at_peak[MemoryKind::activation])
          << model << " under " << scheme;
    }
  }
}

TEST(DegreesOfShardingOnGpus, TrainAsSingleDoes) {
  using peer::Shard;
  auto config = tiny_on_gpus("mlp");
  const RunRecord reference = reference_of(config, 4);
  for (const auto& [shard, group] : {std::pair{Shard::no_shard, 0},
                                     {Shard::shard_optimizer, 0},
                                     {Shard::shard_grad_op, 0},
                                     {Shard::hybrid_shard, 2}}) {
    config.scheme_options["fsdp"] = peer::FsdpOptions{.shard = shard, .shard_group = group};
    const RunRecord row = run(runner::plan_training(config, "fsdp", 4));
    EXPECT_LT(runner::largest_difference(row.loss, reference.loss), 1e-5) << name_of(shard);
  }
}

TEST(SharesBySpeedOnGpus, AreMeasuredThereAndTrainAsSingleDoes) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    auto config = tiny_on_gpus("mlp");
    config.train.shares = Shares::speed;
    config.train.precision = precision;
    const RunPlan waiting = runner::plan_training(config, "fsdp", 2);
    const runner::RunMaker threads{
        [](const RunPlan& plan, const std::function<void(const Step&)>&) {
          return runner::RunOutcome{run(plan)};
        },
        [] { return false; }};
    const auto measured = runner::measure_speeds(runner::plan_measurement(waiting), threads);
    ASSERT_TRUE(measured);  // with times that are positive
    EXPECT_FALSE(waits_for_speeds(runner::plan_training(config, "fsdp", 2, {measured->speeds})));

    const RunPlan plan =
        runner::plan_training(config, "fsdp", 2, {made_up_speeds(waiting, {0.1, 0.3})});
    EXPECT_EQ(plan.train.weights, (std::vector<std::int64_t>{9, 3}));
    const RunRecord single = run(runner::plan_single_for({plan, &config}));
    EXPECT_LT(runner::largest_difference(run(plan).loss, single.loss),
              runner::largest_rounding(plan));
  }
}

TEST_P(PeersInSteadySteps, AskTheDriverForNothingThatBlocks) {
  auto config = tiny_on_gpus("gpt");
  config.train.steps = 16;
  const RunPlan plan = runner::plan_training(config, scheme(), world());
  cuda_on_host::Counters before, after;
  MemoryStore store;
  std::vector<std::string> errors(plan.ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < plan.ranks.size(); ++r)
      threads.emplace_back([&, r] {
        const auto count = [&](const Progress& progress) {
          if (r == 0 && progress.step == 6) before = cuda_on_host::counters();
          if (r == 0 && progress.step == 14) after = cuda_on_host::counters();
        };
        try {
          runner::run_rank(plan, static_cast<int>(r), {store}, {count, [](const std::string&) {}});
        } catch (const std::exception& error) {
          errors[r] = error.what();
        }
      });
  }
  EXPECT_EQ(errors, std::vector<std::string>(plan.ranks.size()));
  EXPECT_GT(after.launches, before.launches);
  EXPECT_EQ(after.mallocs, before.mallocs);
  EXPECT_EQ(after.host_mallocs, before.host_mallocs);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.pageable_copies, before.pageable_copies);
  EXPECT_EQ(after.streams, before.streams);
}

}  // namespace
}  // namespace ringside::testing
