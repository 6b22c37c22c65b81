// Reports about schemes with an algorithm of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/plan/references.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/report.h"
#include "peer/schemes/local_sgd.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside::runner {
namespace {

using ::testing::HasSubstr;

class DefinitionsInReports : public ::testing::Test {
 protected:
  DefinitionsInReports() {
    row_ = made_up_row("local_sgd", 2, 0, 180, "x", {2, 1.5});
    row_.parameter_hashes = {"x", "y"};
    definition_ = row_;
    set_plan(definition_, plan_definition(row_.plan));
  }
  Verdict verdict_of(const RunRecord& row) const { return verdict({&row}, {row, definition_}); }

  RunRecord row_, definition_;
};

TEST_F(DefinitionsInReports, EqualBitsOfAllReplicasAreTheProof) {
  EXPECT_EQ(verdict_of(row_).proof, Proof::identical_to_definition);
  RunRecord other = row_;
  other.parameter_hashes[1] = "z";
  EXPECT_EQ(verdict_of(other).proof, Proof::different) << "although the losses agree";
  EXPECT_EQ(verdict_of(other).cause, "the parameters of rank 1 at the end differ");
  other.loss[1] = 1.6;
  EXPECT_EQ(verdict_of(other).proof, Proof::different);
  other = row_;
  other.parameter_hashes.pop_back();
  EXPECT_EQ(verdict_of(other).proof, Proof::different) << "a replica is missing";
  EXPECT_EQ(verdict({&definition_}, {row_, definition_}).proof, Proof::reference);
}

TEST_F(DefinitionsInReports, OnlyTheDefinitionOfTheRunItselfCounts) {
  RunRecord other = row_;
  other.plan.options = peer::LocalSgdOptions{.sync_every = 7};
  EXPECT_EQ(verdict_of(other).proof, Proof::not_shown);
  EXPECT_EQ(verdict_of(other).cause, "its definition has not finished");
  other = row_;
  other.plan.train.seed = 99;
  EXPECT_EQ(verdict_of(other).proof, Proof::not_shown);
  other = row_;
  other.plan.world = 3;
  EXPECT_EQ(verdict_of(other).proof, Proof::not_shown);
  definition_.status = "failed";
  EXPECT_EQ(verdict_of(row_).proof, Proof::not_shown);
}

TEST_F(DefinitionsInReports, SingleIsNoDefinitionOfAnotherAlgorithm) {
  RunRecord single = made_up_row("single", 1, 0, 100, "x", {2, 1.5});
  EXPECT_EQ(verdict({&row_}, {single, row_}).proof, Proof::not_shown);
}

TEST_F(DefinitionsInReports, RowsWithTheFormerNameOfASchemeAreRead) {
  row_.plan.options = peer::LocalSgdOptions{.sync_every = 1};
  row_.plan.optimizer.kind = "sgd";
  auto json = nlohmann::json::parse(to_json(row_).dump());
  json["scheme"] = "averaging";
  for (const char* option : {"group", "group_every", "average_moments"})
    json["options"].erase(option);
  const RunRecord old = row_from_json(json, default_options);
  EXPECT_EQ(old.plan.options.fields().size(), row_.plan.options.fields().size());
  EXPECT_EQ(old.plan.options.as<peer::LocalSgdOptions>().sync_every, 1);
  EXPECT_EQ(old.plan.options.as<peer::LocalSgdOptions>().group, 1);
  set_plan(definition_, plan_definition(row_.plan));
  RunRecord defined = definition_;
  defined.plan.scheme = "averaging";
  EXPECT_THAT(
      summary_text(summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}), old, defined})),
      HasSubstr("bit-identical to its definition; tested against single"));
}

TEST_F(DefinitionsInReports, AllOfThemStandInTheTable) {
  const std::string text =
      summary_text(summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}), row_, definition_}));
  EXPECT_THAT(text, HasSubstr("| local_sgd                 |"));
  EXPECT_THAT(text, HasSubstr("| local_sgd x2 (definition) |"));
  EXPECT_THAT(text, HasSubstr("bit-identical to its definition"));
}

}  // namespace
}  // namespace ringside::runner
