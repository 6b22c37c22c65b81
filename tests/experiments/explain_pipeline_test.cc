// Causes of a pipeline's waiting, of made-up records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/plan/mesh.h"
#include "experiments/tools/explain/explanation.h"
#include "tests/experiments/explain_made_up.h"
#include "tests/experiments/made_up_pipeline.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tools::explain::Finding;

Staged pipeline_evidence(const RunRecord& row) {
  Staged out;
  out.row = std::make_unique<RunRecord>(row);
  out.evidence = tools::explain::evidence_of_case(runner::summarise({row}).front(), {out.row.get()},
                                                  "no folder");
  return out;
}

/// GPipe, 2 micro-batches: a bubble of 4.5 ms of equal stages, 1.5 ms because stage 1 takes longer,
/// and 1 ms for sends.
Staged uneven_pipeline() {
  return pipeline_evidence(
      made_up_pipeline("gpipe", {.step_ms = 16, .waiting_ms = {9, 5}, .f = {1, 2}, .b = {2, 4}}));
}

std::vector<std::string> names_of_findings(const std::vector<Finding>& found) {
  std::vector<std::string> out;
  for (const Finding& one : found) out.push_back(one.cause);
  return out;
}

TEST(ExplainPipeline, DividesTheWaitingIntoItsCauses) {
  const Staged staged = uneven_pipeline();
  const std::vector<Finding> found = tools::explain::findings_of(staged.evidence);
  ASSERT_THAT(names_of_findings(found),
              ElementsAre("bubble", "imbalance of stages", "exposed sends"))
      << "no other cause claims the same milliseconds";
  EXPECT_NEAR(found[0].ms, 4.5, 1e-9);
  EXPECT_NEAR(found[1].ms, 1.5, 1e-9);
  EXPECT_NEAR(found[2].ms, 1, 1e-9);
  EXPECT_THAT(found[0].sentence, HasSubstr("schedule gpipe, 2 ranks and 2 micro-batches"));
  EXPECT_THAT(found[1].sentence, HasSubstr("Stage 1 on rank 1 takes 6.00 ms"));
}

TEST(ExplainPipeline, RemediesAreKeysOfTheExperiment) {
  const Staged staged = uneven_pipeline();
  const std::vector<Finding> found = tools::explain::findings_of(staged.evidence);
  ASSERT_EQ(found.size(), 3u);
  std::vector<std::string> keys;
  for (const Finding& one : found)
    for (const tools::explain::Remedy& remedy : one.remedies)
      if (!remedy.settings.empty())
        keys.push_back(remedy.settings[0].key + "=" + remedy.settings[0].value);
  EXPECT_THAT(keys, ElementsAre("train.accumulation=4", "pipeline.schedule=zb_h1",
                                "pipeline.schedule=interleaved", "pipeline.balance=time"));
  // Half a sample is no micro-batch, so the batch grows.
  EXPECT_EQ(found[0].remedies[0].settings[1].key, "train.global_batch");
}

/// Of the bubble of zb_h2, if the optimizers wait for the norm of all stages.
TEST(ExplainPipeline, OptimizersThatWaitForANormCouldGoAhead) {
  RunRecord row =
      made_up_pipeline("zb_h2", {.step_ms = 12, .waiting_ms = {3, 5}, .f = {1, 1}, .b = {2, 2}});
  const auto goes_ahead = [&row] {
    const Staged staged = pipeline_evidence(row);
    for (const Finding& one : tools::explain::findings_of(staged.evidence))
      for (const tools::explain::Remedy& remedy : one.remedies)
        if (!remedy.settings.empty() && remedy.settings[0].key == "pipeline.post_validation")
          return true;
    return false;
  };
  EXPECT_FALSE(goes_ahead()) << "nothing needs the norm";
  row.plan.optimizer.clip_norm = 1;
  EXPECT_TRUE(goes_ahead());
  row.plan.pipeline.post_validation = true;
  EXPECT_FALSE(goes_ahead()) << "they do";
  row.plan.pipeline.post_validation = false;
  row.plan.optimizer.kind = "lamb";
  EXPECT_FALSE(goes_ahead()) << "lamb always waits";
}

TEST(ExplainPipeline, RemediesCanBePlanned) {
  const Staged staged = uneven_pipeline();
  for (const Finding& one : tools::explain::findings_of(staged.evidence))
    for (const tools::explain::Remedy& remedy : one.remedies) {
      if (remedy.settings.empty() || remedy.settings[0].value == "time") continue;
      runner::ExperimentConfig config = made_up_experiment();
      config.mesh.pipeline = 2;
      config.pipeline = staged.row->plan.pipeline;
      config.train.accumulation = 2;
      std::vector<runner::Assignment> settings;
      for (const Setting& setting : remedy.settings) {
        const std::string text = setting.key + "=" + setting.value;
        settings.push_back(runner::parse_assignment(text, text));
      }
      EXPECT_NO_THROW(
          runner::plan_training(runner::bind_line(config, settings, {}, "trial"), "ddp", 2))
          << remedy.words;
    }
}

/// A run of real ranks, on a machine that `ringside calibrate` has measured.
TEST(ExplainPipeline, TriesStagesThatAreEvenInTheMeasuredTime) {
  const Staged staged = uneven_pipeline();
  tools::explain::WhatIfSetup ground;
  ground.machine = {.cluster = testing::small_cluster(2)};
  const tools::explain::Remedy remedy{
      .words = "x", .settings = {{"pipeline.balance", "time"}, {"pipeline.cuts", "[]"}}};
  const RunPlan plan = tools::explain::what_if_plan(staged.row->plan, remedy, ground);
  EXPECT_EQ(plan.pipeline.alike, StagesAlike::measured);
}

/// Two replicas of two stages: the values that workers of one stage send are no collective of
/// theirs, and the slower stage is no slow rank.
TEST(ExplainPipeline, WorkersOfOtherStagesAreNoSlowRanks) {
  runner::ExperimentConfig config = made_up_experiment();
  config.mesh.pipeline = 2;
  config.train.global_batch = 4;
  config.train.accumulation = 2;
  const RunPlan plan = runner::plan_training(config, "ddp", 4);
  std::vector<RankRecord> records;
  for (const RankPlan& one : plan.ranks) {
    const bool last = place_in_mesh(plan, one.rank).pipeline == 1;
    RankRecord& rank = records.emplace_back();
    rank.rank = one.rank;
    rank.role = "worker";
    const double compute = last ? 12 : 4, late = one.rank % 2;
    rank.slices = {{"step", "step", 0, 13 * ms},
                   {"compute", "forward a", 0, compute * ms},
                   {"communication", "output of micro-batch 0 from stage 0", late * ms, 9 * ms},
                   {"exposed", "wait output of micro-batch 0 from stage 0", compute * ms,
                    (13 - compute) * ms}};
    StepTime time;
    time.total = 13 * ms;
    time.by_activity[static_cast<std::size_t>(Activity::compute)] = compute * ms;
    time.by_activity[static_cast<std::size_t>(Activity::exposed)] = (13 - compute) * ms;
    rank.steps = {time, time, time};
  }
  const Staged staged = evidence_of_records(plan, records);
  ASSERT_TRUE(staged.evidence.traced());
  EXPECT_DOUBLE_EQ(staged.evidence.for_last_rank_ms(), 0);
  for (const tools::explain::Wait& wait : staged.evidence.waits)
    EXPECT_EQ(wait.kind, tools::explain::WaitFor::stage);
  EXPECT_THAT(names_of_findings(tools::explain::findings_of(staged.evidence)),
              ::testing::Not(::testing::Contains("a slow rank")));
}

/// The evidence of a simulated pipeline of two ranks, whose F, I, W and sends take these times.
Staged profiled_pipeline(const std::string& schedule, std::int64_t micro_batches) {
  runner::ExperimentConfig config = staged_experiment(2, micro_batches);
  config.train.accumulation = micro_batches;
  config.mesh.pipeline = 2;
  config.pipeline.schedule = schedule;
  config.pipeline.profile = {.f = 10, .b = 9, .w = 8, .send = 3};
  return stage(config, "ddp", 2);
}

std::vector<std::string> texts_of(const std::vector<tools::explain::PathPart>& path) {
  std::vector<std::string> out;
  for (const tools::explain::PathPart& part : path)
    out.push_back(fmt::format("{} on rank {} {:.3f}", part.name, part.rank, part.ms));
  return out;
}

TEST(ExplainPath, GoesFromAWaitForAStageToTheRankThatSends) {
  EXPECT_THAT(
      texts_of(profiled_pipeline("gpipe", 1).evidence.path),
      ElementsAre("0F0 on rank 0 10.000", "output of micro-batch 0 from stage 0 on rank 1 3.000",
                  "1F0 on rank 1 10.000", "1B0 on rank 1 17.000",
                  "gradient of micro-batch 0 from stage 1 on rank 0 3.000",
                  "0B0 on rank 0 17.000"));
}

TEST(ExplainPath, HasOfAMessageNoMoreThanItTakes) {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"}) {
    const Staged staged = profiled_pipeline(schedule, 4);
    double all = 0;
    for (const tools::explain::PathPart& part : staged.evidence.path) {
      all += part.ms;
      if (part.activity != "communication") continue;
      EXPECT_LE(part.ms, 3 + 1e-6) << part.name;
    }
    EXPECT_NEAR(all, staged.evidence.ms.step, 1e-6) << schedule;
  }
}

/// A rank that comes to a message after its sender did not wait for the other rank.
TEST(ExplainPath, StaysWhereAMessageIsAwaitedThatHadCome) {
  runner::ExperimentConfig config = made_up_experiment();
  config.mesh.pipeline = 2;
  const RunPlan plan = runner::plan_training(config, "ddp", 2);
  const std::string value = "output of micro-batch 0 from stage 0";
  RankRecord sends, receives;
  receives.rank = 1;
  sends.slices = {{"step", "step", 0, 10 * ms},
                  {"compute", "F", 0, 4 * ms},
                  {"communication", value, 4 * ms, 1 * ms}};
  receives.slices = {{"step", "step", 0, 20 * ms},
                     {"communication", value, 1 * ms, 4 * ms},
                     {"compute", "other", 1 * ms, 8 * ms},
                     {"exposed", "wait " + value, 9 * ms, 1 * ms},
                     {"compute", "F", 10 * ms, 10 * ms}};
  for (RankRecord* rank : {&sends, &receives}) {
    rank->role = "worker";
    StepTime time;
    time.total = 20 * ms;
    rank->steps = {time, time, time};
  }
  for (const tools::explain::PathPart& part :
       evidence_of_records(plan, {sends, receives}).evidence.path)
    EXPECT_EQ(part.rank, 1) << part.name;
}

}  // namespace
}  // namespace ringside
