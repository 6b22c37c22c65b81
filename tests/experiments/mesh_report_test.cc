// Summaries of runs whose workers have different stages of the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/runner/report/report.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A run of two pipelines of two stages, of which the first workers show the parameters.
RunRecord staged_row(double samples_per_s, const std::string& hash) {
  RunRecord row = made_up_row("ddp", 2, 0, samples_per_s, hash, {2, 1});
  ExperimentConfig config = made_up_experiment();
  config.mesh.pipeline = 2;
  set_plan(row, plan_training(config, "ddp", 4));
  row.at_end.shown_by = 2;
  return row;
}

TEST(MeshReport, ShowsTheMeshWhereACaseHasAPipeline) {
  const RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  const auto cases = summarise({single, staged_row(300, "a")});
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, AllOf(HasSubstr("mesh |"), HasSubstr("2 x 2"), HasSubstr("1 x 1"),
                          HasSubstr("mesh: workers with different samples x")));
  EXPECT_THAT(text, HasSubstr("Mesh: ddp at world 4: data 2 x pipeline 2, data within a machine; "
                              "1f1b, stages from units 0, 3 of even parameters.\n"));
  EXPECT_THAT(row_text(staged_row(300, "a")),
              AllOf(HasSubstr("mesh           data 2 x pipeline 2, data within a machine; 1f1b"),
                    HasSubstr("(of each of 2 pipelines)")));
  const auto setup = summary_json("trial", cases)["cases"][1]["setup"];
  EXPECT_EQ(setup["mesh"]["pipeline"], 2);
  EXPECT_EQ(setup["pipeline"]["schedule"], "1f1b");
}

TEST(MeshReport, RemarksRecomputationUnderADividedBackward) {
  RunRecord row = staged_row(300, "a");
  EXPECT_THAT(summary_text(summarise({row})), Not(HasSubstr("Recomputation")));
  EXPECT_THAT(row_text(row), Not(HasSubstr("recomputation")));
  ExperimentConfig config = made_up_experiment();
  config.mesh.pipeline = 2;
  config.pipeline.schedule = "zb_h1";
  config.train.recompute = Recompute::full;
  set_plan(row, plan_training(config, "ddp", 4));
  EXPECT_THAT(summary_text(summarise({row})),
              HasSubstr("Recomputation: ddp at world 4: train.recompute = 'full' saves little "
                        "memory under zb_h1, whose backward is divided"));
  EXPECT_THAT(row_text(row), HasSubstr("recomputation  train.recompute = 'full' saves little"));
}

TEST(MeshReport, WithoutAPipelineSaysNothingOfMeshes) {
  const auto cases = summarise({made_up_row("ddp", 2, 0, 100, "a", {2, 1})});
  EXPECT_THAT(summary_text(cases), Not(HasSubstr("mesh")));
  EXPECT_FALSE(summary_json("trial", cases)["cases"][0]["setup"].contains("mesh"));
}

TEST(MeshReport, SpeedUpsAreOfSamplesAndEfficiencyIsOfAllWorkers) {
  const RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  const CaseSummary staged = summarise({single, staged_row(300, "a")}).at(1);
  EXPECT_EQ(staged.verdict.proof, Proof::identical_to_single);
  EXPECT_DOUBLE_EQ(staged.speed_up.median, 3);
  EXPECT_DOUBLE_EQ(staged.efficiency.value_or(0), 0.75);
}

TEST(MeshReport, EveryPipelineHasToShowItsParameters) {
  const RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  EXPECT_EQ(summarise({single, staged_row(300, "b")}).at(1).verdict.proof, Proof::different);
  RunRecord silent = staged_row(300, "a");
  silent.at_end.shown_by = 1;
  const Verdict verdict = summarise({single, silent}).at(1).verdict;
  EXPECT_EQ(verdict.proof, Proof::not_shown);
  EXPECT_THAT(verdict.cause, HasSubstr("of 2 pipelines only 1 showed"));
}

}  // namespace
}  // namespace ringside::runner
