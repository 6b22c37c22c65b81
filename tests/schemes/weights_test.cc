// Weights that runs begin with and leave behind, under every scheme.
#include <gtest/gtest.h>

#include "core/interchange/safetensors.h"
#include "experiments/plan/checks.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside {
namespace {

using testing::tiny;

class SchemeWeights : public ::testing::TestWithParam<std::string> {
 protected:
  /// Trains as the configuration says, and returns the bytes of the file that is left behind.
  std::string saved(const ExperimentConfig& config, const std::string& scheme, int world,
                    const std::string& name) {
    RunPlan plan = plan_training(config, scheme, world);
    plan.save = folder_.path() / name;
    check_inputs(plan);
    run_ranks_as_threads(plan);
    return folder_.read(name);
  }
  ExperimentConfig two_steps() const {
    auto config = tiny("gpt");
    config.train.steps = 2;
    return config;
  }
  testing::TemporaryFolder folder_;
};

TEST_P(SchemeWeights, AreThoseOfSingle) {
  auto reference = two_steps();
  reference.scheme_options["single"] = SingleOptions{.replicas = 2};
  const std::string file = saved(two_steps(), GetParam(), 2, "a.safetensors");
  EXPECT_GT(file.size(), 1000u);
  EXPECT_EQ(file, saved(reference, "single", 1, "b.safetensors"));
}

TEST_P(SchemeWeights, AreWhatItBeginsWith) {
  const std::string file = saved(two_steps(), "single", 1, "a.safetensors");
  auto config = two_steps();
  config.optimizer.lr = 0;
  config.train.seed = 5;
  EXPECT_NE(saved(config, GetParam(), 2, "b.safetensors"), file);
  config.train.initial_weights = folder_.path() / "a.safetensors";
  EXPECT_EQ(saved(config, GetParam(), 2, "b.safetensors"), file);
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeWeights, ::testing::ValuesIn(testing::scheme_names()),
                         [](const auto& info) { return info.param; });

TEST(InitialWeights, ThatDoNotFitAreRefusedBeforeTraining) {
  const testing::TemporaryFolder folder;
  auto config = tiny("gpt");
  RunPlan plan = plan_training(config, "single", 1);
  plan.save = folder.path() / "a.safetensors";
  run_ranks_as_threads(plan);
  config.train.initial_weights = plan.save;
  config.model.layers = 1;
  try {
    check_inputs(plan_training(config, "single", 1));
    FAIL() << "it was taken";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("a.safetensors"), std::string::npos) << text;
    EXPECT_NE(text.find("unknown: transformer.h.1."), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ringside
