// What pipelines report of themselves, held against their schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/pipeline/activations.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/model_borders.h"
#include "experiments/runner/registry/stage_activations.h"
#include "experiments/runner/results/trace.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

struct FiguredPipeline {
  std::string schedule;
  int pipeline = 2;
  std::int64_t chunks = 0;  // as the schedule has
  bool tied = false;
};

void PrintTo(const FiguredPipeline& one, std::ostream* out) {
  *out << fmt::format("{} {} {}{}", one.schedule, one.pipeline, one.chunks,
                      one.tied ? " tied" : "");
}

ExperimentConfig figured_config(const FiguredPipeline& one) {
  ExperimentConfig config = testing::tiny("gpt");
  config.model.layers = 6;
  config.model.width = 32;
  config.model.tied = one.tied;
  config.train.steps = 4;
  config.train.warmup = 1;
  config.train.global_batch = 16;
  config.train.accumulation = 8;
  config.mesh.pipeline = one.pipeline;
  config.pipeline.schedule = one.schedule;
  config.pipeline.chunks = one.chunks;
  return config;
}

RunPlan figured_plan(const FiguredPipeline& one, int data = 1) {
  ExperimentConfig config = figured_config(one);
  config.train.accumulation = 8 / data;
  return plan_training(config, "ddp", one.pipeline * data);
}

class PipelineFigures : public ::testing::TestWithParam<FiguredPipeline> {
 protected:
  const RunPlan plan = figured_plan(GetParam());
  const RunRecord row = testing::run(plan);
  const pipeline::Schedule schedule = schedule_of(plan);
};

TEST_P(PipelineFigures, AsManyMicroBatchesAreUnderWayAsTheScheduleHas) {
  const auto held = pipeline::held_micro_batches(schedule);
  for (const RankRecord& rank : row.ranks)
    for (const StageRecord& stage : rank.pipeline->stages) {
      EXPECT_EQ(stage.most_under_way,
                held[static_cast<std::size_t>(stage.stage)].until_weight_gradient)
          << "stage " << stage.stage;
      EXPECT_GT(stage.forward_ms, 0);
      EXPECT_GT(stage.backward_ms + stage.input_gradient_ms, 0);
    }
}

TEST_P(PipelineFigures, BytesOverTheBordersAreTheFewestThatAreNeeded) {
  const Borders borders = borders_of(plan);
  for (const RankRecord& rank : row.ranks) {
    const double least = border_bytes(plan, schedule, borders, rank.rank);
    EXPECT_DOUBLE_EQ(rank.pipeline->bytes_sent_per_step, least) << "rank " << rank.rank;
    EXPECT_DOUBLE_EQ(rank.bytes_sent_per_step, least) << "ddp of one worker sends nothing";
  }
}

/// To the byte: neither values on their way between stages nor the peaks of other kinds of memory
/// are in it.
void expect_activations_of_the_formula(const RunPlan& plan, const RunRecord& row) {
  const pipeline::Schedule schedule = schedule_of(plan);
  const auto stages = activations_of_stages(plan);
  for (const RankRecord& rank : row.ranks) {
    const int place = place_in_mesh(plan, rank.rank).pipeline;
    EXPECT_DOUBLE_EQ(static_cast<double>(rank.pipeline->most_activations),
                     most_activations(schedule, place, stages))
        << "rank " << rank.rank;
  }
}

TEST_P(PipelineFigures, ActivationsAtTheirPeakAreThoseOfTheFormula) {
  expect_activations_of_the_formula(plan, row);
}

TEST_P(PipelineFigures, TheTraceHasALaneWithEveryAction) {
  const auto events = trace(row.ranks)["traceEvents"];
  std::map<int, int> lanes;
  for (const auto& event : events)
    if (event["name"] == "thread_name" && event["args"]["name"] == "pipeline")
      lanes[event["pid"]] = event["tid"];
  EXPECT_EQ(lanes.size(), row.ranks.size());
  std::map<std::string, int> actions;  // how many spans
  for (const auto& event : events) {
    if (event["ph"] != "X" || event["cat"] != "pipeline") continue;
    EXPECT_EQ(event["tid"], lanes.at(event["pid"]));
    const std::string operation = event["args"]["operation"];
    const std::string number = std::to_string(event["args"]["micro_batch"].get<int>());
    const std::string name = event["name"];
    EXPECT_TRUE(name.starts_with(operation + number + " of stage ")) << name;
    ++actions[name];
  }
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const pipeline::Action& action : schedule.actions[static_cast<std::size_t>(rank)])
      EXPECT_EQ(actions[fmt::format("{}{} of stage {}", name_of(action.operation),
                                    action.micro_batch, action.stage)],
                actions.begin()->second);
  EXPECT_GT(actions.begin()->second, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, PipelineFigures,
    ::testing::Values(FiguredPipeline{"1f1b"}, FiguredPipeline{"gpipe"}, FiguredPipeline{"1f1b", 4},
                      FiguredPipeline{"interleaved", 2, 2}, FiguredPipeline{"sequential"},
                      FiguredPipeline{"zb_h1"}, FiguredPipeline{"zb_h2"}, FiguredPipeline{"zb_v"},
                      FiguredPipeline{"1f1b", 2, 0, true}, FiguredPipeline{"zb_h1", 4, 0, true},
                      FiguredPipeline{"zb_v", 2, 0, true}),
    [](const auto& info) {
      return testing::name_in_tests(fmt::format("{}_{}{}", info.param.schedule, info.param.pipeline,
                                                info.param.tied ? "_tied" : ""));
    });

/// Each micro-batch of each stage has a whole backward or its halves, as a file says: those of even
/// numbers are divided in stage 0, those of odd ones in stage 1.
TEST(PipelineFiguresTest, BackwardMayBeDividedInSomeMicroBatchesAlone) {
  const testing::TemporaryFolder folder;
  folder.write("mixed.csv",
               "0F0,0F1,0F2,0I0,0F3,0W0,0B1,0I2,0W2,0B3\n"
               "1F0,1B0,1F1,1I1,1F2,1W1,1B2,1F3,1I3,1W3\n");
  for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::attention}) {
    ExperimentConfig config = figured_config({(folder.path() / "mixed.csv").string()});
    config.train.accumulation = 4;
    config.train.recompute = recompute;
    const RunPlan plan = plan_training(config, "ddp", 2);
    expect_activations_of_the_formula(plan, testing::run(plan));
  }
}

/// With data x pipeline the rest is what the scheme sends, which is the same as without a pipeline.
TEST(PipelineFiguresTest, WithReplicasTheRestAreTheBytesOfTheScheme) {
  const RunPlan plan = figured_plan({"1f1b"}, /*data=*/2);
  const RunRecord row = testing::run(plan);
  double of_scheme = 0;
  for (const RankRecord& rank : row.ranks) {
    const double stages = rank.pipeline->bytes_sent_per_step;
    EXPECT_DOUBLE_EQ(stages, border_bytes(plan, schedule_of(plan), borders_of(plan),
                                          place_in_mesh(plan, rank.rank).pipeline));
    of_scheme += rank.bytes_sent_per_step - stages;
  }
  // A ring of 2 sends each gradient once from each of them.
  EXPECT_NEAR(of_scheme, 2.0 * 4 * static_cast<double>(row.parameters), 0.02 * of_scheme);
}

}  // namespace
}  // namespace ringside::runner
