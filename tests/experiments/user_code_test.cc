// Code of a user's own that PyTorch runs: how it is planned, told apart by version, refused, and
// held against its definition. The real program goes on with ranks of
// tests/experiments/other_program.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/plan/same_run.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/report_tables.h"
#include "experiments/runner/report/verdict.h"
#include "experiments/runner/results/data_state.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/experiments/program_test.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* own_code =
    "def hook(state, bucket): ...\ndef definition(context, buckets): ...\nclass Gossip: ...\n";

class OwnCodePlans : public ::testing::Test {
 protected:
  RunPlan plan(const std::vector<std::string>& settings, const std::string& scheme = "torch-ddp",
               int world = 2) const {
    std::vector<std::string> all = {"name=trial", "train.global_batch=4", "train.micro_batch=1",
                                    "data.kind=synthetic"};
    for (const std::string& one : settings) all.push_back("scheme." + scheme + "." + one);
    return plan_training(experiment_of("trial", all).common, scheme, world);
  }
  std::string refusal(const std::vector<std::string>& settings,
                      const std::string& scheme = "torch-ddp") const {
    return testing::complaint([&] { plan(settings, scheme); });
  }

  testing::TemporaryFolder folder_;
  const std::string file_ = folder_.write("own.py", own_code);
};

TEST_F(OwnCodePlans, AHookIsAnAlgorithmOfItsOwnThatItsFileDefines) {
  const RunPlan run = plan({"hook=" + file_ + ":hook"});
  EXPECT_EQ(run.promise, Promise::own_algorithm);
  EXPECT_EQ(run.program->definition, DefinedBy::program);
  ASSERT_EQ(run.program->files.size(), 1u);
  EXPECT_EQ(run.program->files[0].path, file_);
  EXPECT_EQ(run_plan_from_json(nlohmann::json(to_json(run)), default_options), run);
  const RunPlan definition = plan_definition(run);
  EXPECT_EQ(definition.program, run.program);
  EXPECT_EQ(definition.ranks.at(0).environment, run.ranks.at(0).environment);
  EXPECT_EQ(std::tuple(definition.defines, definition.world, definition.train.accumulation),
            std::tuple(2, 1, 2 * run.train.accumulation));
  EXPECT_TRUE(must_equal(run, definition));
  EXPECT_EQ(plan({}).promise, Promise::same_run);
}

TEST_F(OwnCodePlans, VersionsOfAFileAreToldApart) {
  const RunPlan before = plan({"hook=" + file_ + ":hook"});
  EXPECT_TRUE(same_case(before, plan({"hook=" + file_ + ":hook"})));
  const DataState state = data_state({before}, Digests::taken);
  folder_.write("own.py", std::string(own_code) + "# another version\n");
  const RunPlan after = plan({"hook=" + file_ + ":hook"});
  EXPECT_FALSE(same_case(before, after));
  EXPECT_FALSE(must_equal(after, plan_definition(before)));
  EXPECT_TRUE(must_equal(after, plan_definition(after)));
  EXPECT_EQ(first_other_content(state, data_state({after}, Digests::taken)), file_);
  EXPECT_EQ(first_change(part_of(state, before), data_state(after)), file_);
}

TEST_F(OwnCodePlans, WhoDefinesARun) {
  const std::string other = folder_.write("other.py", "def hook(s, b): ...\ndef mean(c, b): ...\n");
  const auto defined_by = [&](const std::vector<std::string>& settings) {
    const RunPlan run = plan(settings);
    EXPECT_EQ(lacks_definition(run), run.program->definition == DefinedBy::nobody);
    return run.program->definition;
  };
  EXPECT_EQ(defined_by({}), DefinedBy::ringside);
  EXPECT_EQ(defined_by({"hook=" + other + ":hook"}), DefinedBy::nobody);
  EXPECT_EQ(defined_by({"hook=" + other + ":hook", "definition=" + other + ":mean"}),
            DefinedBy::program);
  EXPECT_EQ(defined_by({"hook=" + file_ + ":hook", "definition=none"}), DefinedBy::nobody);
  EXPECT_EQ(defined_by({"hook=torch:fp16_compress_hook"}), DefinedBy::nobody);
  const std::vector<std::string> of_torch = {"hook=torch:powerSGD_hook",
                                             "definition=" + other + ":mean"};
  EXPECT_EQ(defined_by(of_torch), DefinedBy::program);
  EXPECT_EQ(plan(of_torch).program->files.at(0).path, other);
  EXPECT_EQ(
      plan({"hook=" + file_ + ":hook", "definition=" + other + ":mean"}).program->files.size(), 2u);
}

TEST_F(OwnCodePlans, ADefinitionIsMadeOnceForAllRepeatsAndNoneWhereThereIsNone) {
  ExperimentConfig config =
      experiment_of("trial",
                    {"data.kind=synthetic", "compare.repeats=2", "compare.schemes=[\"torch-ddp\"]",
                     "compare.worlds=[2]", "scheme.torch-ddp.hook=" + file_ + ":hook"})
          .common;
  const auto references = [&] {
    std::vector<std::string> out;
    for (const RunPlan& run : plan_comparison(config, 1))
      if (run.purpose == Purpose::reference) out.push_back(run.listing.label);
    return out;
  };
  EXPECT_THAT(references(), ::testing::ElementsAre("torch-ddp x2 (definition)"));
  config.scheme_options.at("torch-ddp") =
      plan({"hook=" + file_ + ":hook", "definition=none"}).options;
  EXPECT_THAT(references(), ::testing::IsEmpty());
}

TEST_F(OwnCodePlans, AClassOfAWorkerToo) {
  const RunPlan run = plan({"file=" + file_ + ":Gossip", "settings=every=4"}, "torch");
  EXPECT_EQ(run.promise, Promise::own_algorithm);
  EXPECT_TRUE(lacks_definition(run));
  folder_.write("own.py", std::string(own_code) + "class DefinitionOfAnother: ...\n");
  EXPECT_TRUE(lacks_definition(plan({"file=" + file_ + ":Gossip"}, "torch")));
  folder_.write("own.py", std::string(own_code) + "class Definition: ...\n");
  const RunPlan defined = plan({"file=" + file_ + ":Gossip"}, "torch");
  EXPECT_TRUE(must_equal(defined, plan_definition(defined)));
  EXPECT_THAT(refusal({}, "torch"), HasSubstr("name it with scheme.torch.file"));
}

TEST_F(OwnCodePlans, WhatCannotBeRightIsRefusedBeforeAnyRun) {
  EXPECT_EQ(refusal({"hook=" + file_ + ":hook"}), "nothing");
  EXPECT_THAT(refusal({"hook=" + file_ + ":hok"}),
              HasSubstr("scheme.torch-ddp.hook: " + file_ +
                        " has no 'hok'; it has def hook, def definition, class Gossip"));
  EXPECT_THAT(refusal({"hook=/no/such.py:hook"}),
              HasSubstr("scheme.torch-ddp.hook: /no/such.py cannot be read: No such file"));
  EXPECT_THAT(refusal({"hook=" + file_}), HasSubstr("write \"file.py:function\""));
  EXPECT_THAT(refusal({"hook=" + file_ + ":1"}), HasSubstr("write \"file.py:NAME\""));
  EXPECT_THAT(refusal({"hook=torch:fp8_hook"}), HasSubstr("allreduce_hook, bf16_compress_hook"));
  EXPECT_THAT(refusal({"hook=" + file_ + ":hook", "definition=" + file_ + ":nothing_there"}),
              HasSubstr("scheme.torch-ddp.definition: " + file_ + " has no 'nothing_there'"));
  EXPECT_THAT(refusal({"settings=a=1"}), HasSubstr("are those of a hook"));
  EXPECT_THAT(refusal({"hook=" + file_ + ":hook", "settings=ratio 0.01"}),
              HasSubstr("write \"NAME=VALUE, NAME=VALUE\""));
}

TEST_F(OwnCodePlans, PathsAreThoseOfTheExperimentFilesFolder) {
  const std::string trial = folder_.write(
      "trial.toml",
      "[scheme.torch-ddp]\nhook = \"own.py:hook\"\ndefinition = \"own.py:definition\"\n"
      "[compare]\nschemes = [\"torch-ddp\"]\nworlds = [2]\n[data]\nkind = \"synthetic\"\n"
      "[[compare.case]]\nscheme = \"torch-ddp\"\n"
      "set = { \"scheme.torch-ddp.hook\" = \"torch:allreduce_hook\" }\n"
      "[[compare.case]]\nscheme = \"torch\"\nset = { \"scheme.torch.file\" = \"own.py:Gossip\" "
      "}\n");
  const auto option = [](const RunPlan& run, std::string_view name) {
    for (const Field& field : run.options.fields())
      if (field.name == name) return *std::get<std::string*>(field.value);
    return std::string();
  };
  std::map<std::string, std::string> codes;
  for (const RunPlan& run : plan_comparison(read_experiment(trial, {}), 1)) {
    if (run.purpose != Purpose::asked) continue;
    codes[run.listing.label] = option(run, run.scheme == "torch" ? "file" : "hook");
    if (run.scheme == "torch-ddp") {
      EXPECT_EQ(option(run, "definition"), file_ + ":definition");
    }
  }
  EXPECT_EQ(codes, (std::map<std::string, std::string>{
                       {"torch-ddp", file_ + ":hook"},
                       {"torch-ddp (hook=torch:allreduce_hook)", "torch:allreduce_hook"},
                       {"torch (file=own.py:Gossip)", file_ + ":Gossip"}}));
}

// ---- verdicts

TEST(UserCodeVerdicts, ARunWithoutADefinitionShowsNothing) {
  std::vector<RunRecord> rows = {made_up_row("single", 1, 0, 10, "aa", {2, 1}),
                                 made_up_row("torch-ddp", 2, 0, 10, "", {2, 1})};
  rows[1].plan.promise = Promise::own_algorithm;
  rows[1].plan.program->definition = DefinedBy::nobody;
  const Verdict none = verdict({&rows[1]}, rows);
  EXPECT_EQ(none.proof, Proof::not_shown);
  EXPECT_EQ(none.cause, "no definition");
}

TEST(UserCodeVerdicts, BytesThatAreNotKnownAreNoZero) {
  RunRecord row = made_up_row("torch-ddp", 2, 0, 10, "", {2, 1});
  for (RankRecord& rank : row.ranks) {
    rank.bytes_sent_per_step = 0;
    rank.bytes_known = false;
  }
  row.bytes_minimum_per_step = 1e6;
  EXPECT_THAT(row_text(row), HasSubstr("sent           not known; least possible 1.00 MB"));
  std::vector<RunRecord> rows = {made_up_row("single", 1, 0, 10, "aa", {2, 1}), row};
  EXPECT_EQ(verdict({&rows[1]}, rows).proof, Proof::to_rounding);
  const std::vector<TableLine> table = figures_table(summarise(rows));
  const auto column = std::find(table[0].begin(), table[0].end(), "MB sent") - table[0].begin();
  EXPECT_EQ(table.back().at(static_cast<std::size_t>(column)), "-");
  const RunRecord again = row_from_json(nlohmann::json(to_json(row)), default_options);
  EXPECT_FALSE(bytes_known(again));
}

// ---- the whole program

class UserCodeRuns : public ProgramTest {
 protected:
  UserCodeRuns() {
    small_gpt(8, 4,
              "steps = 4\nwarmup = 1\nglobal_batch = 4\n[compare]\nrepeats = 1\n"
              "worlds = [2]\nall_cores = false\nschemes = [\"torch-ddp\"]\n");
    folder_.write("own.py", own_code);
  }
  /// Compares a hook with its definition; ranks do `what`, as tests/experiments/other_program.py
  /// says.
  Ended compare(const std::string& what, const std::vector<std::string>& more = {}) const {
    const std::string file = folder_.write(
        "python", "#!/bin/sh\nexec python3 -B " RINGSIDE_OTHER_PROGRAM " " + what + " \"$@\"\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    std::vector<std::string> arguments = {"compare", "trial.toml",
                                          "--set",   "scheme.torch-ddp.hook=own.py:hook",
                                          "--set",   "scheme.torch-ddp.python=" + file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(UserCodeRuns, ARowIsHeldAgainstTheDefinitionThatItsProgramMakes) {
  const Ended right = compare("report");
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_THAT(right.out,
              ::testing::ContainsRegex("\\| torch-ddp  .*\\| to rounding \\(0e\\+00\\)"));
  EXPECT_THAT(right.out,
              ::testing::ContainsRegex("\\| torch-ddp x2 \\(definition\\).*\\| reference"));
  const Ended wrong = compare("wrong");
  EXPECT_EQ(wrong.status, 0) << wrong.err;
  EXPECT_THAT(wrong.out, ::testing::ContainsRegex("\\| torch-ddp  .*\\| DIFFERENT \\(1e-02\\)"));
}

TEST_F(UserCodeRuns, WithoutADefinitionNothingIsShown) {
  const Ended none = compare("report", {"--set", "scheme.torch-ddp.definition=none"});
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("| not shown: no definition"));
  EXPECT_THAT(none.out, Not(HasSubstr("(definition)")));
}

TEST_F(UserCodeRuns, AnotherVersionOfAFileIsAnotherRun) {
  EXPECT_EQ(compare("report").status, 0);
  folder_.write("own.py", std::string(own_code) + "# another version\n");
  const Ended resumed = compare("report", {"--resume"});
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.err, HasSubstr("own.py has changed since the earlier runs"));
}

}  // namespace
}  // namespace ringside::runner
