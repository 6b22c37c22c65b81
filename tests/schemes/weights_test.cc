// Weights that runs begin with and leave behind, under every scheme.
#include <gtest/gtest.h>

#include "core/interchange/safetensors.h"
#include "experiments/runner/plan/checks.h"
#include "tests/schemes/tiny_models.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::tiny;

class SchemeWeights : public ::testing::TestWithParam<std::string> {
 protected:
  /// Trains as the configuration says, and returns the bytes of the file that is left behind.
  std::string saved(const ExperimentConfig& config, const std::string& scheme, int world,
                    const std::string& name) {
    return saved(plan_training(config, scheme, world), name);
  }
  std::string saved(RunPlan plan, const std::string& name) {
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

TEST_P(SchemeWeights, AreThoseOfTheDefinition) {
  RunPlan reference = plan_training(two_steps(), GetParam(), 2);
  if (reference.promise == Promise::replayed) {
    reference.save = folder_.path() / "a.safetensors";
    const RunRecord row = testing::run(reference);
    reference = testing::replay_plan_of(row);
    EXPECT_TRUE(saved(reference, "b.safetensors") == folder_.read("a.safetensors"));
    return;
  }
  if (has_own_definition(reference)) {
    reference = plan_definition(reference);
  } else {
    auto config = two_steps();
    config.scheme_options["single"] = SingleOptions{.replicas = 2};
    reference = plan_training(config, "single", 1);
  }
  const std::string file = saved(two_steps(), GetParam(), 2, "a.safetensors");
  EXPECT_GT(file.size(), 1000u);
  EXPECT_TRUE(file == saved(reference, "b.safetensors")) << "other bytes";
}

TEST_P(SchemeWeights, AreWhatItBeginsWith) {
  const std::string file = saved(two_steps(), "single", 1, "a.safetensors");
  auto config = two_steps();
  config.optimizer.lr = 0;
  config.train.seed = 5;
  EXPECT_TRUE(saved(config, GetParam(), 2, "b.safetensors") != file) << "the same bytes";
  config.train.initial_weights = folder_.path() / "a.safetensors";
  EXPECT_TRUE(saved(config, GetParam(), 2, "b.safetensors") == file) << "other bytes";
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeWeights, ::testing::ValuesIn(testing::scheme_names()),
                         [](const auto& info) { return testing::name_in_tests(info.param); });

/// Runs begin with a file that `single` has left behind.
class InitialWeights : public ::testing::Test {
 protected:
  InitialWeights() {
    RunPlan plan = plan_training(config_, "single", 1);
    plan.save = config_.train.initial_weights = folder_.path() / "a.safetensors";
    run_ranks_as_threads(plan);
  }
  RunPlan plan() const { return plan_training(config_, "single", 1); }

  testing::TemporaryFolder folder_;
  ExperimentConfig config_ = tiny("gpt");
};

TEST_F(InitialWeights, OfAnotherModelAreRefusedBeforeTraining) {
  const std::string heads = std::to_string(config_.model.heads);
  config_.model.heads = 1;  // tensors have the same shapes
  EXPECT_EQ(testing::complaint([&] { check_inputs(plan()); }),
            "train.initial_weights: heads = " + heads + " in " + config_.train.initial_weights +
                ", 1 here; choose the [model] that the weights were made for");
}

TEST_F(InitialWeights, ThatAreNotFiniteAreBlamedAndNotTheLearningRate) {
  const std::string nan = "\xff\xff\xff\x7f";
  std::string weights = folder_.read("a.safetensors");
  weights.replace(weights.size() - nan.size(), nan.size(), nan);
  folder_.write("a.safetensors", weights);
  const std::string text = testing::complaint([&] { run_ranks_as_threads(plan()); });
  EXPECT_NE(text.find("a.safetensors: tensor '"), std::string::npos) << text;
  EXPECT_NE(text.find("train.initial_weights must be finite"), std::string::npos) << text;
}

/// Every stage of a pipeline reads its own parameters from the file, and tables of others' units
/// and running statistics with them.
class WeightsOfStages : public ::testing::TestWithParam<ExperimentConfig (*)()> {
 protected:
  /// A run from the weights that another one has left behind, with two micro-batches of a worker.
  ExperimentConfig from_weights() const {
    ExperimentConfig config = GetParam()();
    RunPlan first = plan_training(config, "single", 1);
    first.save = folder_.path() / "a.safetensors";
    run_ranks_as_threads(first);
    config.train.initial_weights = first.save;
    config.train.accumulation = 2;
    config.train.reduce = Reduce::last;
    return config;
  }
  testing::TemporaryFolder folder_;
};

TEST_P(WeightsOfStages, AreThoseOfTheFile) {
  ExperimentConfig config = from_weights();
  const RunRecord single = testing::reference_of(config, 2);
  config.mesh.pipeline = 2;
  for (const char* scheme : {"ddp", "fsdp", "ps"}) {
    const RunRecord row = testing::run(plan_training(config, scheme, 4));
    EXPECT_EQ(row.parameter_hashes, single.parameter_hashes) << scheme;
    EXPECT_EQ(row.loss, single.loss) << scheme;
  }
  config.train.initial_weights.clear();
  EXPECT_NE(testing::run(plan_training(config, "ddp", 4)).loss, single.loss) << "drawn values";
}

INSTANTIATE_TEST_SUITE_P(Of, WeightsOfStages,
                         ::testing::Values(testing::tied_llama, testing::tiny_bert,
                                           testing::tiny_idefics3, testing::evaluated_resnet));

}  // namespace
}  // namespace ringside::runner
