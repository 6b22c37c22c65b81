// Pipelines: the run of `single` over the same micro-batches, whatever the schedule.
#include <gtest/gtest.h>

#include "core/pipeline/makers.h"
#include "core/plan/same_run.h"
#include "experiments/runner/plan/planner.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/tiny_models.h"
#include "tests/schemes/tried_mesh.h"

namespace ringside::runner {
namespace {

using testing::reference_of;
using testing::run;
using testing::tiny;
using testing::TriedMesh;

/// 16 units.
ExperimentConfig deep_gpt() { return testing::gpt_of_stages(14, 3); }

RunPlan pipeline_plan(ExperimentConfig config, const TriedMesh& mesh) {
  config.mesh.pipeline = mesh.pipeline;
  config.pipeline.schedule = mesh.schedule;
  config.pipeline.chunks = mesh.chunks;
  return plan_training(config, mesh.scheme, mesh.world());
}

/// The run of the mesh has the losses, the parameters and the skipped steps of `single`.
void expect_the_run_of_single(const ExperimentConfig& config, const TriedMesh& mesh) {
  const RunRecord row = run(pipeline_plan(config, mesh));
  ExperimentConfig alone = config;
  alone.train.offload = Offload::none;
  const RunRecord single = reference_of(alone, mesh.data);
  EXPECT_EQ(row.parameter_hashes, single.parameter_hashes);
  EXPECT_EQ(row.loss, single.loss);
  EXPECT_EQ(row.skipped_steps, single.skipped_steps);
  ASSERT_EQ(row.evaluations.size(), single.evaluations.size());
  for (std::size_t i = 0; i < row.evaluations.size(); ++i)
    EXPECT_EQ(row.evaluations[i].loss, single.evaluations[i].loss);
  EXPECT_EQ(row.parameters, single.parameters);
}

class Pipelines : public ::testing::TestWithParam<TriedMesh> {};

TEST_P(Pipelines, AreTheRunOfSingle) { expect_the_run_of_single(deep_gpt(), GetParam()); }

std::vector<TriedMesh> tried_meshes() {
  std::vector<TriedMesh> out;
  for (const pipeline::MakerInfo& maker : pipeline::maker_rows()) {
    const std::int64_t chunks = maker.chunks == pipeline::MakerInfo::Chunks::any ? 2 : 0;
    const std::string schedule(maker.name);
    for (const auto& [pipeline, data] :
         std::vector<std::pair<int, int>>{{2, 1}, {4, 1}, {8, 1}, {2, 4}, {4, 2}})
      out.push_back({"ddp", schedule, pipeline, data, chunks});
    for (const char* scheme : {"fsdp", "zero1"})
      for (const int pipeline : {2, 4}) out.push_back({scheme, schedule, pipeline, 2, chunks});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, Pipelines, ::testing::ValuesIn(tried_meshes()), [](const auto& info) {
  const TriedMesh& mesh = info.param;
  return testing::name_in_tests(fmt::format("{}_{}_pipeline_{}_data_{}", mesh.scheme, mesh.schedule,
                                            mesh.pipeline, mesh.data));
});

struct TriedModel {
  const char* name;
  ExperimentConfig (*make)();
};

/// Encoders and decoders, tied tables, masked positions and images: what a border cuts, it carries.
class PipelinesOfModels : public ::testing::TestWithParam<TriedModel> {};

TEST_P(PipelinesOfModels, AreTheRunOfSingle) {
  ExperimentConfig config = GetParam().make();
  config.train.steps = 3;
  config.train.accumulation = 3;
  config.train.evaluate_every = 3;
  config.train.evaluate_batches = 1;
  for (const char* schedule : {"1f1b", "zb_h1"}) {
    expect_the_run_of_single(config, {.schedule = schedule, .pipeline = 2});
    expect_the_run_of_single(config, {.schedule = schedule, .pipeline = 3, .data = 2});
  }
  expect_the_run_of_single(config, {.schedule = "zb_v", .pipeline = 2});
}

INSTANTIATE_TEST_SUITE_P(All, PipelinesOfModels,
                         ::testing::Values(TriedModel{"bert", testing::tiny_bert},
                                           TriedModel{"gpt_with_dropout",
                                                      testing::gpt_with_dropout},
                                           TriedModel{"tied_llama", testing::tied_llama},
                                           TriedModel{"idefics3", testing::tiny_idefics3},
                                           TriedModel{"t5", testing::tiny_t5},
                                           TriedModel{"resnet", testing::evaluated_resnet}),
                         [](const auto& info) { return info.param.name; });

class PipelinesWith : public ::testing::TestWithParam<TriedMesh> {
 protected:
  static ExperimentConfig config() {
    ExperimentConfig config = deep_gpt();
    config.model.layers = 6;
    config.train.accumulation = 4;
    config.train.steps = 4;
    return config;
  }
};

TEST_P(PipelinesWith, ATiedTable) {
  ExperimentConfig config = this->config();
  config.model.tied = true;
  expect_the_run_of_single(config, GetParam());
}

TEST_P(PipelinesWith, DropoutAndRecomputation) {
  ExperimentConfig config = this->config();
  config.model.dropout = 0.2;
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    config.train.recompute = recompute;
    expect_the_run_of_single(config, GetParam());
  }
}

TEST_P(PipelinesWith, NumbersOf16Bits) {
  ExperimentConfig config = this->config();
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    config.train.precision = precision;
    expect_the_run_of_single(config, GetParam());
  }
}

TEST_P(PipelinesWith, ClippedGradientsAndLamb) {
  ExperimentConfig config = this->config();
  config.optimizer.clip_norm = 0.05;
  expect_the_run_of_single(config, GetParam());
  config.optimizer.kind = "lamb";
  expect_the_run_of_single(config, GetParam());
}

TEST_P(PipelinesWith, Evaluations) {
  ExperimentConfig config = this->config();
  config.model.tied = true;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  expect_the_run_of_single(config, GetParam());
}

TEST_P(PipelinesWith, AnOffloadedOptimizer) {
  ExperimentConfig config = this->config();
  config.train.offload = Offload::optimizer;
  expect_the_run_of_single(config, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    All, PipelinesWith,
    ::testing::Values(TriedMesh{}, TriedMesh{.scheme = "fsdp", .pipeline = 2, .data = 2},
                      TriedMesh{.schedule = "interleaved", .pipeline = 2, .chunks = 2},
                      TriedMesh{.scheme = "zero1", .schedule = "zb_h2", .pipeline = 2, .data = 2},
                      TriedMesh{.scheme = "fsdp", .schedule = "zb_v", .pipeline = 2, .data = 2}),
    [](const auto& info) {
      return testing::name_in_tests(
          fmt::format("{}_{}_data_{}", info.param.scheme, info.param.schedule, info.param.data));
    });

/// Where every micro-batch's gradients are reduced, the definition adds up in that order.
TEST(PipelinesThatReduceEveryMicroBatch, AreTheRunOfTheirDefinition) {
  ExperimentConfig config = deep_gpt();
  config.train.reduce = Reduce::every;
  for (const char* scheme : {"ddp", "fsdp"}) {
    const RunRecord row = run(pipeline_plan(config, {.scheme = scheme, .data = 2}));
    EXPECT_EQ(row.parameter_hashes, testing::definition_of(config, scheme, 2).parameter_hashes);
  }
}

/// Gradients that wait for a table come behind those of later micro-batches: no bucket has both,
/// and a unit's sums keep their order. So do those of several stages of a rank.
TEST(PipelinesThatReduceEveryMicroBatch, KeepGradientsApartThatWaitForATable) {
  ExperimentConfig config = deep_gpt();
  config.model.layers = 6;
  config.model.tied = true;
  config.train.reduce = Reduce::every;
  config.scheme_options["fsdp"] = peer::FsdpOptions{.min_unit_parameters = 3000, .bucket_mb = 1};
  for (const bool overlap : {true, false}) {
    config.scheme_options["ddp"] = peer::DdpOptions{.overlap = overlap};
    for (const char* scheme : {"ddp", "fsdp"}) {
      const std::string expected = testing::definition_of(config, scheme, 2).parameter_hashes.at(0);
      for (const TriedMesh& mesh : {TriedMesh{.schedule = "1f1b"}, TriedMesh{.schedule = "zb_h1"},
                                    TriedMesh{.schedule = "interleaved", .chunks = 2}}) {
        TriedMesh tried = mesh;
        tried.scheme = scheme;
        tried.data = 2;
        const RunRecord row = run(pipeline_plan(config, tried));
        EXPECT_EQ(row.parameter_hashes.at(0), expected)
            << scheme << ' ' << mesh.schedule << ' ' << overlap;
      }
    }
  }
}

/// A ring adds up each part of what is sent at once in another order, and a code's scales are those
/// of such a part; stages divide what a whole model sends at once, and so does their definition.
TEST(PipelinesWhoseSumsFollowFromMessages, AreTheRunOfTheirDefinition) {
  ExperimentConfig config = deep_gpt();
  config.model.layers = 6;
  config.train.accumulation = 2;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::ring};
  const peer::FsdpOptions by_ring{
      .min_unit_parameters = 9000, .bucket_mb = 1, .algorithm = Algorithm::ring};
  const peer::FsdpOptions coded{.min_unit_parameters = 9000, .compression = {.compressor = "int8"}};
  for (const auto& [scheme, fsdp] : std::vector<std::pair<std::string, peer::FsdpOptions>>{
           {"ddp", {}}, {"fsdp", by_ring}, {"fsdp", coded}})
    for (const TriedMesh& mesh :
         {TriedMesh{.schedule = "1f1b", .data = 4}, TriedMesh{.schedule = "zb_h1", .data = 3}}) {
      TriedMesh tried = mesh;
      tried.scheme = scheme;
      config.model.tied = mesh.schedule == "zb_h1";
      config.train.global_batch = 8 * mesh.data;
      config.scheme_options["fsdp"] = fsdp;
      const RunPlan plan = pipeline_plan(config, tried);
      const RunPlan definition = plan_definition(plan);
      EXPECT_TRUE(must_equal(plan, definition));
      EXPECT_EQ(run(plan).parameter_hashes.at(0), run(definition).parameter_hashes.at(0))
          << scheme << ' ' << mesh.schedule;
    }
}

/// Rank 0 would wait with B0 for W0 of rank 1, which stands behind an F1 that waits for rank 0.
TEST(PipelinesOfFiles, WithATiedTableDoNotWaitInACircle) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("mine.csv", "0F0,0B0,0F1,0B1\n1F0,1I0,1F1,1W0,1I1,1W1\n");
  ExperimentConfig config = deep_gpt();
  config.model.layers = 2;
  config.train.accumulation = 2;
  for (const bool tied : {false, true}) {
    config.model.tied = tied;
    expect_the_run_of_single(config, {.schedule = file});
    expect_the_run_of_single(config, {.scheme = "fsdp", .schedule = file, .data = 2});
  }
}

/// Servers of its own for each stage.
TEST(PipelinesOverServers, AreTheRunOfSingle) {
  ExperimentConfig config = deep_gpt();
  for (const ps::Placement placement : {ps::Placement::dedicated, ps::Placement::colocated}) {
    config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = placement};
    expect_the_run_of_single(config, {.scheme = "ps", .pipeline = 2, .data = 2});
  }
}

/// Replicas that train by themselves for a while are pipelines too: their algorithm is that of
/// replicas on one rank each.
TEST(PipelinesOfReplicas, AreTheRunOfTheirDefinition) {
  ExperimentConfig config = deep_gpt();
  config.model.layers = 4;
  const RunRecord row = run(pipeline_plan(config, {.scheme = "local_sgd", .data = 2}));
  const RunRecord definition = testing::definition_of(config, "local_sgd", 2);
  EXPECT_EQ(row.parameter_hashes, definition.parameter_hashes);
  EXPECT_EQ(row.loss, definition.loss);
}

}  // namespace
}  // namespace ringside::runner
