// A GPU trains as the CPU does.
#include <gtest/gtest.h>

#include "tests/cuda/tiny_on_gpus.h"

namespace ringside::testing {
namespace {

class LossesOnGpus : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, LossesOnGpus, ::testing::Values("gpt", "mlp"),
                         [](const auto& info) { return info.param; });

TEST_P(LossesOnGpus, AreThoseOfTheCpuOverFiftySteps) {
  runner::ExperimentConfig config = tiny_on_gpus(GetParam());
  config.train.steps = 50;
  config.optimizer.kind = GetParam() == "gpt" ? "adamw" : "sgd";
  const RunRecord gpu = run(runner::plan_training(config, "single", 1));
  config.device.kind = "cpu";
  const RunRecord cpu = run(runner::plan_training(config, "single", 1));
  EXPECT_LT(runner::largest_difference(gpu.loss, cpu.loss), 1e-4);
  // The losses depend on the updates of earlier steps: half the learning rate changes them.
  config.optimizer.lr /= 2;
  EXPECT_GT(
      runner::largest_difference(run(runner::plan_training(config, "single", 1)).loss, cpu.loss),
      1e-3);
}

}  // namespace
}  // namespace ringside::testing
