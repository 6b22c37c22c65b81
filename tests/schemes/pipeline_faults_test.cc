// Pipelines whose steps are skipped, whose parameters change by themselves, and what they leave
// behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plan/faults.h"
#include "experiments/runner/plan/checks.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_models.h"
#include "tests/schemes/tried_mesh.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;
using testing::tiny;
using testing::TriedMesh;
using testing::wrong_evaluations;
using testing::wrong_losses;
using testing::wrong_parameters;

/// The run of the mesh. `data` varies fastest in the numbers of workers.
RunPlan plan_of_mesh(ExperimentConfig config, const TriedMesh& mesh) {
  config.train.reduce = Reduce::last;
  config.mesh.pipeline = mesh.pipeline;
  config.pipeline.schedule = mesh.schedule;
  config.pipeline.chunks = mesh.chunks;
  return plan_training(config, mesh.scheme, mesh.data * mesh.pipeline);
}

/// The run of `single` over the same micro-batches, with the same poison.
RunPlan reference_plan(ExperimentConfig config, const TriedMesh& mesh) {
  config.faults.plan = poisons_for_definition(plan_of_mesh(config, mesh));
  config.scheme_options["single"] = SingleOptions{.replicas = mesh.data};
  return plan_training(config, "single", 1);
}

ExperimentConfig four_micro_batches(const std::string& model) {
  ExperimentConfig config = model == "resnet" ? testing::evaluated_resnet() : tiny(model);
  config.train.accumulation = 4;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  return config;
}

class StruckPipelines : public ::testing::TestWithParam<TriedMesh> {};

/// A worker of the first stage has the poison, which the last stage of its replica meets.
TEST_P(StruckPipelines, SkipAStepTogether) {
  const TriedMesh mesh = GetParam();
  for (const char* model : {"gpt", "resnet"})
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      ExperimentConfig config = four_micro_batches(model);
      config.model.tied = model == std::string("gpt");
      config.train.precision = precision;
      config.train.skip_not_finite = 1;
      const RunRecord all = run(plan_of_mesh(config, mesh));
      config.faults.plan = {fmt::format("poison worker {} at step 2", mesh.data - 1)};
      const RunRecord row = run(plan_of_mesh(config, mesh));
      const RunRecord single = run(reference_plan(config, mesh));
      EXPECT_EQ(row.skipped_steps, single.skipped_steps);
      for (const RankRecord& rank : row.ranks) EXPECT_EQ(rank.skipped_steps, row.skipped_steps);
      EXPECT_THAT(wrong_parameters(row, single), IsEmpty());
      EXPECT_THAT(wrong_losses(row, single), IsEmpty());
      EXPECT_THAT(wrong_evaluations(row, single), IsEmpty());
      EXPECT_EQ(row.skipped_steps, all.skipped_steps + 1);
      EXPECT_NE(row.parameter_hashes, all.parameter_hashes);
    }
}

TEST_P(StruckPipelines, EndIfTooManyStepsAreSkippedInARow) {
  ExperimentConfig config = four_micro_batches("gpt");
  config.train.skip_not_finite = 1;
  const auto ends = [&](std::vector<std::string> faults) {
    config.faults.plan = std::move(faults);
    return complaint([&] { run(plan_of_mesh(config, GetParam())); });
  };
  EXPECT_EQ(ends({"poison worker 0 at step 1", "poison worker 0 at step 3"}), "nothing");
  EXPECT_NE(ends({"poison worker 0 at step 1", "poison worker 0 at step 2"}), "nothing");
}

/// Slow workers change no bit, whichever stage they have.
TEST_P(StruckPipelines, WaitForSlowWorkers) {
  ExperimentConfig config = four_micro_batches("gpt");
  config.faults.plan = {"slow worker 1 by 1.5 from step 1"};
  EXPECT_THAT(wrong_parameters(run(plan_of_mesh(config, GetParam())),
                               run(reference_plan(config, GetParam()))),
              IsEmpty());
}

/// What is saved at the end is what `single` saves: names, parameters and running statistics.
TEST_P(StruckPipelines, SaveTheWeightsOfTheWholeModel) {
  const testing::TemporaryFolder folder;
  const auto saved = [&](RunPlan plan, const char* name) {
    plan.save = folder.path() / name;
    check_inputs(plan);
    run_ranks_as_threads(plan);
    return folder.read(name);
  };
  for (const char* model : {"gpt", "resnet"})
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      ExperimentConfig config = four_micro_batches(model);
      config.model.tied = model == std::string("gpt");
      config.train.precision = precision;
      config.train.steps = 2;
      const std::string file = saved(plan_of_mesh(config, GetParam()), "a.safetensors");
      EXPECT_GT(file.size(), 1000u);
      EXPECT_TRUE(file == saved(reference_plan(config, GetParam()), "b.safetensors"))
          << model << ": other bytes";
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, StruckPipelines,
    ::testing::Values(TriedMesh{.data = 1}, TriedMesh{.scheme = "fsdp", .data = 2},
                      TriedMesh{
                          .scheme = "zero1", .schedule = "interleaved", .data = 2, .chunks = 2},
                      TriedMesh{.schedule = "zb_v", .data = 2, .chunks = 2},
                      TriedMesh{.scheme = "fsdp", .schedule = "zb_h1", .data = 1}),
    [](const auto& info) {
      return testing::name_in_tests(
          fmt::format("{}_{}_data_{}", info.param.scheme, info.param.schedule, info.param.data));
    });

/// Tables of 2^18 parameters and more come to the first rank in several pieces.
TEST(StruckPipelinesOfLargeUnits, SaveThemInOnePiece) {
  const testing::TemporaryFolder folder;
  const auto saved = [&](RunPlan plan, const char* name) {
    plan.save = folder.path() / name;
    run_ranks_as_threads(plan);
    return folder.read(name);
  };
  ExperimentConfig config = four_micro_batches("gpt");
  config.model.vocabulary = 1 << 14;
  config.train.steps = 2;
  config.train.evaluate_every = 0;
  const TriedMesh mesh{.data = 1};
  EXPECT_TRUE(saved(plan_of_mesh(config, mesh), "a.safetensors") ==
              saved(reference_plan(config, mesh), "b.safetensors"));
}

/// One of three workers of the second stage is struck: both stages name it.
TEST(StruckPipelinesCompare, TheParametersOfEachStage) {
  ExperimentConfig config = four_micro_batches("gpt");
  config.faults.compare_every = 2;
  const TriedMesh mesh{.pipeline = 2, .data = 3};
  EXPECT_EQ(complaint([&] { run(plan_of_mesh(config, mesh)); }), "nothing");
  config.faults.plan = {"flip worker 4 at step 2"};
  EXPECT_THAT(complaint([&] { run(plan_of_mesh(config, mesh)); }),
              HasSubstr("the parameters of rank 4 differ from those of others with the same stages "
                        "after step 4"));
  config.faults.plan = {"flip worker 1 at step 1"};
  EXPECT_THAT(complaint([&] { run(plan_of_mesh(config, mesh)); }),
              HasSubstr("the parameters of rank 1 differ from the others' after step 2, first in "
                        "unit embedding"));
}

}  // namespace
}  // namespace ringside::runner
