// What reports say of pipelines, of made-up records.
#include "experiments/runner/report/pipeline_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/pipeline/csv.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/report/report_page.h"
#include "experiments/runner/report/report_tables.h"
#include "tests/experiments/made_up_pipeline.h"

namespace ringside::runner {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

PipelineSummary summary_of(const RunRecord& row) { return *pipeline_of({&row}); }

TEST(PipelineSummary, BubbleOfEqualStagesIsThatOfTheFormula) {
  // (p - 1)/m of compute: a half of 2 micro-batches of 3 ms.
  const PipelineSummary summary = summary_of(
      made_up_pipeline("1f1b", {.step_ms = 12, .waiting_ms = {3, 5}, .f = {1, 1}, .b = {2, 2}}));
  EXPECT_DOUBLE_EQ(summary.waiting_ms, 4);
  EXPECT_DOUBLE_EQ(summary.bubble, 4.0 / 12);
  EXPECT_DOUBLE_EQ(summary.bubble_by_formula.value(), 3.0 / 12);
  EXPECT_NEAR(summary.bubble_ms, 3, 1e-9);
  EXPECT_NEAR(summary.uneven_ms, 0, 1e-9);
  EXPECT_NEAR(summary.sends_ms, 1, 1e-9);
  EXPECT_DOUBLE_EQ(summary.imbalance, 1);
  ASSERT_THAT(summary.places, SizeIs(2));
  EXPECT_DOUBLE_EQ(summary.places[1].bubble, 5.0 / 12);
}

TEST(PipelineSummary, AStageThatTakesLongerIsToldFromTheBubble) {
  // GPipe, 2 micro-batches: stage 0 computes 0-2 and 9-11, 13-15, stage 1 computes 1-13. Ranks wait
  // 9 and 3 ms of 15, and of equal stages, of 4.5 ms, half of 9.
  const PipelineSummary summary = summary_of(
      made_up_pipeline("gpipe", {.step_ms = 20, .waiting_ms = {9, 5}, .f = {1, 2}, .b = {2, 4}}));
  EXPECT_NEAR(summary.bubble_ms, 4.5, 1e-9);
  EXPECT_NEAR(summary.uneven_ms, 1.5, 1e-9);
  EXPECT_NEAR(summary.sends_ms, 1, 1e-9);
  EXPECT_DOUBLE_EQ(summary.imbalance, 6 / 4.5);
}

TEST(PipelineSummary, PartsOfTheWaitingDoNotExceedIt) {
  const PipelineSummary summary = summary_of(
      made_up_pipeline("gpipe", {.step_ms = 20, .waiting_ms = {4, 6}, .f = {1, 2}, .b = {2, 4}}));
  EXPECT_NEAR(summary.bubble_ms + summary.uneven_ms + summary.sends_ms, 5, 1e-9);
  EXPECT_NEAR(summary.uneven_ms, 0.5, 1e-9);
}

TEST(PipelineSummary, BytesAreDividedByDimension) {
  RunRecord row =
      made_up_pipeline("1f1b", {.step_ms = 12, .waiting_ms = {3, 3}, .f = {1, 1}, .b = {2, 2}});
  for (RankRecord& rank : row.ranks) {
    rank.bytes_sent_per_step = 1e6;
    rank.pipeline->bytes_sent_per_step = 9e5;
  }
  const PipelineSummary summary = summary_of(row);
  EXPECT_DOUBLE_EQ(summary.data.sent, 1e5);
  EXPECT_DOUBLE_EQ(summary.pipeline.sent, 9e5);
  // Stage 0 sends 2 micro-batches of outputs: a sample each, of context x width floats.
  const ModelConfig& model = row.plan.model;
  EXPECT_DOUBLE_EQ(summary.pipeline.minimum,
                   2.0 * 4 * static_cast<double>(model.context * model.width));
}

TEST(PipelineSummary, TablesHaveALineForEveryCaseAndStage) {
  const RunRecord row =
      made_up_pipeline("1f1b", {.step_ms = 12, .waiting_ms = {3, 5}, .f = {1, 1}, .b = {2, 2}});
  const std::vector<CaseSummary> cases = summarise({row});
  const auto pipelines = pipelines_table(cases), stages = stages_table(cases);
  ASSERT_THAT(pipelines, SizeIs(2));
  EXPECT_EQ(pipelines[1][4], "33.3%");
  EXPECT_EQ(pipelines[1][5], "25.0%");
  ASSERT_THAT(stages, SizeIs(3));
  EXPECT_EQ(stages[1][8], "2") << "micro-batches under way in stage 0";
  EXPECT_EQ(stages[1][9], "2") << "p - s of 1f1b";
  EXPECT_EQ(stages[2][9], "1");
  EXPECT_EQ(stages[2][10], "41.7%");
}

TEST(PipelineSummary, AScheduleOfAFileHasNoFormula) {
  RunRecord row =
      made_up_pipeline("1f1b", {.step_ms = 12, .waiting_ms = {3, 5}, .f = {1, 1}, .b = {2, 2}});
  row.plan.pipeline.text = pipeline::to_csv(schedule_of(row.plan));
  row.plan.pipeline.schedule = "1f1b.csv";
  const PipelineSummary summary = summary_of(row);
  EXPECT_FALSE(summary.bubble_by_formula.has_value());
  EXPECT_NEAR(summary.bubble_ms, 3, 1e-9) << "a simulation needs none";
  EXPECT_EQ(summary.stages.at(0).in_flight, 2);
  EXPECT_EQ(summary.stages.at(1).in_flight, 1);
}

TEST(PipelineSummary, RunsWithoutAPipelineHaveNone) {
  const RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  EXPECT_FALSE(pipeline_of({&row}).has_value());
  const auto cases = summarise({row});
  EXPECT_THAT(pipelines_table(cases), IsEmpty());
  EXPECT_THAT(stages_table(cases), IsEmpty());
}

TEST(PipelineSummary, TheReportDrawsTheScheduleWithTheMeasuredTimes) {
  const std::vector<RunRecord> rows = {
      made_up_pipeline("gpipe", {.step_ms = 20, .waiting_ms = {9, 5}, .f = {1, 2}, .b = {2, 4}})};
  const auto report = report_of({.folder = "results/trial",
                                 .rows = rows,
                                 .cases = summarise(rows),
                                 .environment = nlohmann::json()});
  ASSERT_EQ(report["pictures"].size(), 1u);
  EXPECT_EQ(report["pictures"][0]["title"], "ddp, world 2: gpipe");
  EXPECT_THAT(report["pictures"][0]["svg"].get<std::string>(),
              HasSubstr("0.009 s to 0.013 s"))  // the last backward of stage 1
      << "the action's times stand under the pointer";
  EXPECT_DOUBLE_EQ(report["summary"]["cases"][0]["pipeline"]["uneven_ms"].get<double>(), 1.5);
}

}  // namespace
}  // namespace ringside::runner
