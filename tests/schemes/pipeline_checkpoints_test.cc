// Checkpoints of pipelines: they have the state of the whole model, from which any mesh goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "peer/schemes/ddp.h"
#include "tests/schemes/checkpointed_runs.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_models.h"

namespace ringside::runner {
namespace {

using testing::going_on;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::run;
using testing::saving;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny;
using testing::wrong_evaluations;
using testing::wrong_losses;
using testing::wrong_parameters;

/// A scheme whose `data` workers, or replicas, are pipelines.
struct SavedMesh {
  std::string scheme = "ddp";
  int pipeline = 1;
  std::string schedule = "1f1b";
  std::int64_t chunks = 0;
  int data = 2;
  MeshDimension innermost = MeshDimension::data;

  RunPlan plan(ExperimentConfig config) const {
    config.train.reduce = Reduce::last;  // as `single` adds up
    config.mesh = {.pipeline = pipeline, .innermost = innermost};
    config.pipeline.schedule = schedule;
    config.pipeline.chunks = chunks;
    if (scheme != "single") return plan_training(config, scheme, data * pipeline);
    config.scheme_options["single"] = SingleOptions{.replicas = data};
    return plan_training(config, scheme, 1);
  }
  std::string name() const {
    return testing::name_in_tests(
        fmt::format("{}_{}_{}x{}_{}", scheme, schedule, data, pipeline, name_of(innermost)));
  }
};

void PrintTo(const SavedMesh& mesh, std::ostream* out) { *out << mesh.name(); }

const SavedMesh one_rank{.scheme = "single"}, no_pipeline{};
const SavedMesh meshes[] = {
    {.scheme = "ddp", .pipeline = 2},
    {.scheme = "fsdp", .pipeline = 2, .innermost = MeshDimension::pipeline},
    {.scheme = "zero1", .pipeline = 2, .schedule = "interleaved", .chunks = 2},
    {.scheme = "ddp", .pipeline = 2, .schedule = "zb_v", .chunks = 2},
    {.scheme = "fsdp", .pipeline = 4},
};

/// 10 units, of which the first and the last share a table, and 4 micro-batches of a worker.
ExperimentConfig saved_gpt() {
  ExperimentConfig config = tiny("gpt");
  config.model.layers = 8;
  config.model.width = 16;
  config.model.tied = true;
  config.train.accumulation = 4;
  config.train.global_batch = 16;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  config.optimizer.clip_norm = 0.5;
  return config;
}

void expect_the_unbroken_run(const RunRecord& row, const RunRecord& unbroken) {
  EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty());
  EXPECT_THAT(wrong_losses(row, unbroken), IsEmpty()) << "those before the checkpoint too";
  EXPECT_THAT(wrong_evaluations(row, unbroken), IsEmpty());
  EXPECT_EQ(row.skipped_steps, unbroken.skipped_steps);
}

class PipelineCheckpoints : public ::testing::TestWithParam<SavedMesh> {};

TEST_P(PipelineCheckpoints, LeaveTheRunAsItIsAndItsRestEndsWithItsBits) {
  ExperimentConfig config = saved_gpt();
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    config.train.precision = precision;
    const RunPlan plan = GetParam().plan(config);
    const RunRecord unbroken = run(one_rank.plan(config));
    const TemporaryFolder folder;
    expect_the_unbroken_run(saving(plan, folder), unbroken);
    for (const std::int64_t step : {1, 3})
      expect_the_unbroken_run(going_on(plan, folder, step), unbroken);
  }
}

/// Saved by the mesh, it goes on as others do, and saved by others, as the mesh does.
TEST_P(PipelineCheckpoints, GoOnAsOtherMeshes) {
  ExperimentConfig config = saved_gpt();
  config.train.precision = Precision::bf16;
  const RunPlan plan = GetParam().plan(config);
  const RunRecord unbroken = run(one_rank.plan(config));
  const TemporaryFolder folder;
  saving(plan, folder);
  for (const SavedMesh& other : {one_rank, no_pipeline, meshes[0], meshes[2], meshes[4]}) {
    const TemporaryFolder back;
    RunPlan rest = other.plan(config);
    rest.checkpoint = {back.path().string(), 1, 100, true};
    expect_the_unbroken_run(going_on(rest, folder, 2), unbroken);
    expect_the_unbroken_run(going_on(plan, back, 4), unbroken);
  }
}

TEST_P(PipelineCheckpoints, HaveEveryValueOnceAndNothingOfStages) {
  const TemporaryFolder folder;
  saving(GetParam().plan(saved_gpt()), folder, false);
  const Checkpoint whole(checkpoints_in(folder.path()).at(2));
  const std::int64_t all = whole.manifest().parameters;
  EXPECT_EQ(all, run(one_rank.plan(saved_gpt())).parameters);
  EXPECT_THAT(whole.state(), ::testing::UnorderedElementsAre(Pair(StateKey{"parameters"}, all),
                                                             Pair(StateKey{"first_moment"}, all),
                                                             Pair(StateKey{"second_moment"}, all)));
  whole.verify();
}

/// At other numbers of samples a worker, the parameters are the same bits, and all meshes go on
/// alike.
TEST_P(PipelineCheckpoints, AreReadAtAnyNumberOfReplicas) {
  const ExperimentConfig config = saved_gpt();
  const TemporaryFolder folder;
  const RunRecord unbroken = saving(GetParam().plan(config), folder);
  for (const int data : {1, 4}) {
    std::set<std::vector<std::string>> hashes;
    for (SavedMesh other : {one_rank, no_pipeline, meshes[0], meshes[3]}) {
      other.data = data;
      EXPECT_EQ(going_on(other.plan(config), folder, 5).parameter_hashes,
                unbroken.parameter_hashes);
      hashes.insert(going_on(other.plan(config), folder, 2).parameter_hashes);
    }
    EXPECT_THAT(hashes, SizeIs(1)) << data;
  }
}

TEST_P(PipelineCheckpoints, HaveRunningStatistics) {
  ExperimentConfig config = testing::evaluated_resnet();
  config.train.accumulation = 2;
  const SavedMesh& mesh = GetParam();
  const RunRecord unbroken = run(one_rank.plan(config));
  const TemporaryFolder folder;
  expect_the_unbroken_run(saving(mesh.plan(config), folder), unbroken);
  for (const SavedMesh& other : {mesh, one_rank, no_pipeline, meshes[0]})
    expect_the_unbroken_run(going_on(other.plan(config), folder, 3), unbroken);
}

INSTANTIATE_TEST_SUITE_P(All, PipelineCheckpoints, ::testing::ValuesIn(meshes),
                         [](const auto& info) { return info.param.name(); });

/// State of other shapes belongs to a place of the pipeline. It is whole again in the same mesh.
TEST(PipelineCheckpointsOfOwnState, GoOnInTheSameMesh) {
  ExperimentConfig config = saved_gpt();
  config.optimizer.clip_norm = 0;
  for (const char* scheme : {"local_sgd", "diloco", "sgp", "onebit_adam"}) {
    RunPlan plan = SavedMesh{.scheme = scheme, .pipeline = 2}.plan(config);
    if (scheme == std::string("onebit_adam"))
      plan.options = find_scheme(scheme).tried.front().options;
    const RunRecord unbroken = run(plan);
    const TemporaryFolder folder;
    saving(plan, folder);
    for (const std::int64_t step : {1, 3})
      expect_the_unbroken_run(going_on(plan, folder, step), unbroken);
  }
}

/// A compressor draws the numbers of a stage's tensors as it draws them for the whole model.
TEST(PipelineCheckpointsOfOwnState, GoOnWithCompressedGradients) {
  ExperimentConfig config = saved_gpt();
  config.train.evaluate_every = 0;
  config.train.reduce = Reduce::last;
  for (const char* compressor : {"topk", "powersgd", "randomk"}) {
    peer::DdpOptions options;
    options.compression.compressor = compressor;
    config.scheme_options["ddp"] = options;
    const RunPlan plan = SavedMesh{.pipeline = 2}.plan(config);
    const RunRecord unbroken = run(plan);
    EXPECT_EQ(unbroken.parameter_hashes, testing::definition_of(config, "ddp", 2).parameter_hashes);
    const TemporaryFolder folder;
    saving(plan, folder);
    expect_the_unbroken_run(going_on(plan, folder, 3), unbroken);
  }
}

/// Replicas that train by themselves are those of the data dimension. Each clips by the norm over
/// all of its stages.
TEST(PipelineCheckpointsOfOwnState, OfReplicasGoOnWithAnotherPipeline) {
  ExperimentConfig config = saved_gpt();
  config.train.reduce = Reduce::last;
  const SavedMesh mesh{.scheme = "local_sgd", .pipeline = 2};
  const RunRecord unbroken = testing::definition_of(config, "local_sgd", 2);
  const TemporaryFolder folder;
  EXPECT_EQ(saving(mesh.plan(config), folder).parameter_hashes, unbroken.parameter_hashes);
  for (const int pipeline : {1, 4}) {
    const RunRecord row =
        going_on(SavedMesh{.scheme = "local_sgd", .pipeline = pipeline}.plan(config), folder, 3);
    EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty()) << pipeline;
    EXPECT_THAT(wrong_losses(row, unbroken), IsEmpty()) << pipeline;
  }
}

}  // namespace
}  // namespace ringside::runner
