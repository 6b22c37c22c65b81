#include "experiments/runner/results/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/results/content_digest.h"
#include "experiments/runner/results/environment.h"
#include "experiments/runner/run/runner.h"
#include "experiments/tools/watch/event_lines.h"
#include "peer/schemes/ddp.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using testing::TemporaryFolder;

using ::testing::HasSubstr;

class Results : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return temporary_.path() / "results" / "trial"; }
  std::string read(const std::string& name) const {
    return temporary_.read("results/trial/" + name);
  }
  void write(const std::string& name, const std::string& text) const {
    temporary_.write("results/trial/" + name, text);
  }
  static RunRecord row(const std::string& scheme, int world = 1) {
    return made_up_row(scheme, world, 0, 100, "a", {2, 1});
  }
  const std::string plan = R"({"schema": 3, "runs": []})";
  TemporaryFolder temporary_;
};

TEST_F(Results, RowsAreThereAtOnceAndReadBack) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  folder.append(row("single"));
  folder.append(failed_row(row("ddp").plan, "gone"));
  folder.append(row("ps"));
  const std::string lines = read("rows.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  const auto rows = folder.read_rows();
  ASSERT_EQ(rows.size(), 2u);  // failed runs are made again
  EXPECT_EQ(rows[1].plan.scheme, "ps");
}

TEST_F(Results, ALineThatWasCutShortIsNotThere) {
  ResultsFolder folder(path());
  folder.start({row("single")}, plan, "{}");
  write("rows.jsonl", read("rows.jsonl") + "{\"schema\": 3, \"run");
  EXPECT_EQ(folder.read_rows().size(), 1u);
}

TEST_F(Results, AnyOtherLineThatIsNoRowIsNamed) {
  ResultsFolder folder(path());
  folder.start({row("single")}, plan, "{}");
  write("rows.jsonl", read("rows.jsonl") + "nonsense\n" + read("rows.jsonl"));
  EXPECT_THAT(complaint([&] { folder.read_rows(); }), HasSubstr("rows.jsonl:2: not a row"));
}

TEST_F(Results, StartingAnewMovesTheFilesOfAComparisonAsideAndNoOthers) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  folder.append(row("single"));
  folder.write("summary.md", "old");
  folder.write("traces/ddp-w2-r0.json", "old");
  write("notes.txt", "mine");
  const std::string rows = read("rows.jsonl");
  EXPECT_EQ(folder.start({}, plan, "{}"), path() / "before-1");
  EXPECT_EQ(read("rows.jsonl"), "");
  EXPECT_FALSE(std::filesystem::exists(path() / "summary.md"));
  EXPECT_FALSE(std::filesystem::exists(path() / "traces/ddp-w2-r0.json"));
  EXPECT_EQ(read("before-1/rows.jsonl"), rows);
  EXPECT_EQ(read("before-1/plan.json"), plan);
  EXPECT_EQ(read("before-1/summary.md"), "old");
  EXPECT_EQ(read("before-1/traces/ddp-w2-r0.json"), "old");
  EXPECT_EQ(read("notes.txt"), "mine");
  EXPECT_EQ(folder.start({}, plan, "{}"), "");  // no row: nothing to keep
  folder.append(row("ps"));
  EXPECT_EQ(folder.start({}, plan, "{}"), path() / "before-2");
  EXPECT_EQ(read("before-1/rows.jsonl"), rows);
}

TEST_F(Results, RowsThatAreKeptStayWhereTheyAre) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  folder.append(row("single"));
  folder.write("traces/single-w1-r0.json", "old");
  EXPECT_EQ(folder.start({row("single")}, plan, "{}"), "");
  EXPECT_EQ(folder.read_rows().size(), 1u);
  EXPECT_EQ(read("traces/single-w1-r0.json"), "old");
}

TEST_F(Results, FilesOfAnotherProgramAreRefused) {
  std::filesystem::create_directories(path());
  write("summary.md", "mine");
  EXPECT_THAT(complaint([&] { ResultsFolder{path()}; }),
              HasSubstr("contains summary.md but no plan.json of a comparison"));
  EXPECT_EQ(read("summary.md"), "mine");
  write("plan.json", plan);
  EXPECT_NO_THROW(ResultsFolder{path()});
}

TEST_F(Results, RowsWithoutAPlanAreOfAComparison) {
  std::filesystem::create_directories(path());
  write("summary.md", "old");
  write("rows.jsonl", "mine\n");
  EXPECT_THAT(complaint([&] { ResultsFolder{path()}; }), HasSubstr("contains summary.md"));
  write("rows.jsonl", to_json(row("single")).dump() + "\n");
  ResultsFolder folder(path());
  folder.write("summary.md", "new");
  EXPECT_EQ(read("summary.md"), "new");
}

TEST_F(Results, BelongToOneComparisonAtATime) {
  {
    ResultsFolder folder(path());
    EXPECT_THAT(complaint([&] { ResultsFolder second(path()); }),
                HasSubstr("in use by another comparison"));
  }
  EXPECT_NO_THROW(ResultsFolder{path()});
}

TEST_F(Results, AreNotWrittenThroughLinks) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  const std::string secret = temporary_.write("private", "private");
  for (const char* name : {"summary.json", "summary.md", "report.html", "plan.json"}) {
    std::filesystem::remove(path() / name);
    std::filesystem::create_symlink(secret, path() / name);
    folder.write(name, "new");
    EXPECT_EQ(read(name), "new");
  }
  for (const char* name : {"rows.jsonl", ResultsFolder::events_file}) {
    std::filesystem::remove(path() / name);
    std::filesystem::create_symlink(secret, path() / name);
  }
  EXPECT_THAT(complaint([&] { folder.append(row("single")); }),
              HasSubstr("rows.jsonl: this is no file, and links are not followed; remove it"));
  EXPECT_THAT(
      complaint([&] { tools::watch::EventFile(folder.files(), ResultsFolder::events_file); }),
      HasSubstr("progress.jsonl: this is no file, and links are not followed"));
  std::filesystem::create_directory(temporary_.path() / "elsewhere");
  std::filesystem::create_symlink(temporary_.path() / "elsewhere", path() / "traces");
  EXPECT_THAT(complaint([&] { folder.write("traces/single-w1-r0.json", "new"); }),
              HasSubstr("traces: this is no folder, and links are not followed; remove it"));
  EXPECT_TRUE(std::filesystem::is_empty(temporary_.path() / "elsewhere"));
  EXPECT_EQ(temporary_.read("private"), "private");
}

TEST_F(Results, ALinkOfAnotherUserIsNoResultsFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  constexpr uid_t nobody = 65534;
  std::filesystem::create_directories(temporary_.path() / "results" / "private");
  std::filesystem::create_symlink("private", path());
  EXPECT_NO_THROW(ResultsFolder{path()});
  ASSERT_EQ(lchown(path().c_str(), nobody, nobody), 0);
  EXPECT_THAT(complaint([&] { ResultsFolder{path()}; }),
              HasSubstr("trial is a link of user 65534; choose another with --results"));
}

TEST_F(Results, AFolderThatIsRenamedGetsAllFilesAndSaysSo) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  const std::filesystem::path moved = temporary_.path() / "results" / "moved";
  std::filesystem::rename(path(), moved);
  folder.append(row("single"));
  folder.write("traces/single-w1-r0.json", "new");
  folder.write("summary.json", "new");
  EXPECT_TRUE(folder.read_environment());
  EXPECT_FALSE(std::filesystem::exists(path()));
  for (const char* name : {"plan.json", "rows.jsonl", "traces/single-w1-r0.json", "summary.json"})
    EXPECT_TRUE(std::filesystem::exists(moved / name)) << name;
  EXPECT_EQ(complaint([&] { folder.check_there(); }),
            "results folder " + path().string() + " has been renamed to " + moved.string() +
                " during the comparison; leave the folder alone while a comparison runs");
}

TEST_F(Results, AFolderThatIsRemovedIsNotMadeAgain) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  std::filesystem::remove_all(path());
  const auto removed = HasSubstr("trial has been removed during the comparison");
  EXPECT_THAT(complaint([&] { folder.append(row("single")); }), removed);
  EXPECT_THAT(complaint([&] { folder.check_there(); }), removed);
  EXPECT_THAT(complaint([&] { folder.write("summary.json", "new"); }),
              HasSubstr("summary.json: cannot be written: its folder has been removed"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(Results, FilesThatAreRemovedAreMissed) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  for (const char* name : {"environment.json", "rows.jsonl"}) {
    EXPECT_NO_THROW(folder.check_there());
    std::filesystem::remove(path() / name);
    EXPECT_THAT(complaint([&] { folder.check_there(); }),
                HasSubstr(std::string(name) + " has been removed during the comparison"));
    EXPECT_EQ(complaint([&] { folder.append(row("single")); }) == "nothing", name[0] == 'e');
    folder.write(name, "");
  }
}

TEST_F(Results, AFolderThatCannotBeIsRefused) {
  temporary_.write("file", "");
  EXPECT_THAT(complaint([&] { ResultsFolder(temporary_.path() / "file" / "trial"); }),
              HasSubstr("choose another with --results"));
  EXPECT_THROW(ResultsFolder(temporary_.path() / "file"), Error);
}

TEST_F(Results, ResumingSkipsTheRunsThatAreThere) {
  auto config = made_up_experiment();
  config.compare.repeats = 1;
  config.compare.schemes = {"single", "ddp"};
  const auto runs = plan_comparison(config);
  const auto remaining = remaining_runs(runs, {row("single"), row("ddp", 2)}, 1);
  ASSERT_EQ(remaining.size(), 1u);
  EXPECT_EQ(remaining[0].id, "ddp-w1-r0");
  EXPECT_NO_THROW(check_same_experiment({row("single"), row("ddp", 2)}, runs));
  // A row that the plan no longer asks for does no harm.
  EXPECT_NO_THROW(check_same_experiment({row("fsdp", 2)}, runs));
}

TEST_F(Results, KnowWhichWeightsTheRunsBeganWith) {
  RunPlan plan;
  plan.data.kind = "synthetic";
  plan.train.initial_weights =
      temporary_.write("w.index.json", R"({"weight_map": {"a": "1.safetensors"}})");
  const std::string part = temporary_.write("1.safetensors", "before");
  const DataState before = data_state(plan);
  ASSERT_EQ(before.files.size(), 2u);
  EXPECT_EQ(first_change(before, data_state(plan)), "");
  temporary_.write("1.safetensors", "other weights");
  EXPECT_EQ(first_change(before, data_state(plan)), part);
}

TEST_F(Results, KnowTheContentOfTheFilesThatWereRead) {
  namespace fs = std::filesystem;
  RunPlan plan;
  const std::string file = temporary_.write("a.txt", "some text");
  plan.data.path = {file};
  const auto now = [&] { return data_state({plan}, Digests::taken); };
  ResultsFolder folder(temporary_.path() / "results" / "trial");
  folder.write("plan.json", plan_json({row("single").plan}, now()).dump());
  const DataState before = *folder.read_data_state();
  const auto stamp = fs::last_write_time(file);
  fs::last_write_time(file, stamp + std::chrono::seconds(5));
  EXPECT_EQ(first_change(before, now()), file);
  EXPECT_EQ(first_other_content(before, now()), "") << "the file was only touched or copied";
  temporary_.write("a.txt", "same size");
  fs::last_write_time(file, stamp);
  EXPECT_EQ(first_change(before, now()), "");
  EXPECT_EQ(first_other_content(before, now()), file);
}

TEST_F(Results, OfAProgramThatTookNoDigestsJudgeFilesByTheirTimeStamps) {
  RunPlan plan;
  const std::string file = temporary_.write("a.txt", "some text");
  plan.data.path = {file};
  nlohmann::json written = plan_json({row("single").plan}, data_state(plan));
  for (nlohmann::json& one : written.at("data")) one.erase("digest");
  ResultsFolder folder(temporary_.path() / "results" / "trial");
  folder.write("plan.json", written.dump());
  const DataState before = *folder.read_data_state();
  EXPECT_EQ(first_other_content(before, data_state({plan}, Digests::taken)), "");
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(5));
  EXPECT_EQ(first_other_content(before, data_state({plan}, Digests::taken)), file);
}

TEST_F(Results, HaveDigestsThatSeeEveryByteOfAFileAndTheEndsOfALargeOne) {
  const std::string file = temporary_.write("a", std::string(3'000'000, 'a'));
  const std::string whole = content_digest(file);
  const auto with = [&](std::streamoff at) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(at).put('b');
    const std::string digest = content_digest(file);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(at).put('a');
    return digest;
  };
  for (const std::streamoff at : {0, 1'234'567, 2'999'999}) EXPECT_NE(with(at), whole) << at;
  EXPECT_EQ(content_digest(file), whole);
  std::filesystem::resize_file(file, 5 * whole_file_bytes);  // the rest is a hole
  const std::string large = content_digest(file);
  for (const std::streamoff at : {std::int64_t{0}, 5 * whole_file_bytes - 1})
    EXPECT_NE(with(at), large) << at;
  std::filesystem::resize_file(file, 5 * whole_file_bytes - 1);
  EXPECT_NE(content_digest(file), large);
}

TEST_F(Results, KnowFilesWhoseNamesAreNotUtf8) {
  RunPlan plan;
  plan.data.path = {temporary_.path().string()};
  temporary_.write("caf\xe9.txt", "some text");
  const DataState before = data_state({plan}, Digests::taken);
  ResultsFolder folder(temporary_.path() / "results" / "trial");
  folder.write("plan.json", plan_json({row("single").plan}, before).dump());
  EXPECT_EQ(first_change(*folder.read_data_state(), data_state(plan)), "");
  temporary_.write("caf\xe8.txt", "more text");
  EXPECT_THAT(first_change(*folder.read_data_state(), data_state(plan)), HasSubstr("caf\\xE8.txt"));
}

TEST_F(Results, APlanThatNoComparisonWroteIsNamed) {
  ResultsFolder folder(path());
  write("plan.json", R"({"data": 5})");
  EXPECT_THAT(complaint([&] { folder.read_data_state(); }),
              HasSubstr("plan.json: the value of \"data\" is not a list of files"));
}

TEST_F(Results, ARowOfAFailedRunIsWrittenWhateverItsErrorSays) {
  ResultsFolder folder(path());
  folder.start({}, plan, "{}");
  folder.append(failed_row(row("ddp").plan, "caf\xe9.txt is gone"));
  EXPECT_THAT(read("rows.jsonl"), HasSubstr("caf\\\\xE9.txt is gone"));
}

TEST_F(Results, ResumingKnowsTheReferencesOfBatchNormGroups) {
  auto config = made_up_experiment();
  norm_in_groups(config, 2);
  config.optimizer.lr_scaling = LrScaling::linear;
  config.compare.repeats = 1;
  config.compare.schemes = {"ddp"};
  const auto runs = plan_comparison(config);
  ASSERT_EQ(runs.front().purpose, Purpose::reference);
  std::vector<RunRecord> rows;
  for (const RunPlan& run : runs) {
    rows.push_back(row("single"));
    rows.back().plan = run;
  }
  EXPECT_NO_THROW(check_same_experiment(rows, runs));
  EXPECT_TRUE(remaining_runs(runs, rows, 1).empty());
  config.compare.worlds = {1};
  EXPECT_NO_THROW(check_same_experiment(rows, plan_comparison(config)));
  config.optimizer.lr *= 2;
  EXPECT_THAT(complaint([&] { check_same_experiment(rows, plan_comparison(config)); }),
              HasSubstr("made with optimizer.lr"));
}

TEST_F(Results, ResumingWithOtherSchemesKeepsCasesWholeAndInTheNewOrder) {
  auto config = made_up_experiment();
  config.compare.repeats = 1;
  config.compare.schemes = {"single", "ddp", "dp"};
  const auto rows_of = [&](const std::vector<RunPlan>& runs) {
    std::vector<RunRecord> rows;
    for (const RunPlan& run : runs) {
      rows.push_back(row("single"));
      rows.back().plan = run;
      rows.back().samples_per_s = 100;
    }
    return rows;
  };
  auto rows = rows_of(plan_comparison(config));
  config.compare.repeats = 2;
  config.compare.schemes = {"single", "fsdp", "ddp"};  // dp is asked for no more
  const auto runs = plan_comparison(config);
  take_lines(rows, runs);
  for (const RunRecord& made : rows_of(remaining_runs(runs, rows, 1))) rows.push_back(made);
  std::vector<std::string> lines;
  for (const CaseSummary& one : summarise(rows)) {
    lines.push_back(fmt::format("{} w{}", one.label(), one.plan.world));
    EXPECT_EQ(one.runs.repeats, one.plan.scheme == "dp" ? 1 : 2) << lines.back();
  }
  EXPECT_THAT(lines, ::testing::ElementsAre("single w1", "fsdp w1", "fsdp w2", "ddp w1", "ddp w2",
                                            "dp w1", "dp w2"));
}

TEST_F(Results, OfDataThatRunsShareKnowWhichRunReadsWhat) {
  RunPlan one, other;
  one.data.path = {temporary_.write("a.txt", "some text")};
  other.data.path = {temporary_.write("b.txt", "other text")};
  other.train.initial_weights = temporary_.write("w.safetensors", "weights");
  const DataState all = data_state({one, other, one});
  ASSERT_EQ(all.files.size(), 3u);
  EXPECT_EQ(part_of(all, one).files, data_state(one).files);
  EXPECT_EQ(part_of(all, other).files, data_state(other).files);
  temporary_.write("w.safetensors", "other weights");
  EXPECT_EQ(first_change(part_of(all, one), data_state(one)), "");
  EXPECT_EQ(first_change(part_of(all, other), data_state(other)), other.train.initial_weights);
  EXPECT_EQ(first_change(all, data_state(one)), "") << "nobody looked at the others";
}

/// The rows of finished runs.
std::vector<RunRecord> rows_of(const std::vector<RunPlan>& runs) {
  std::vector<RunRecord> rows;
  for (const RunPlan& run : runs) {
    rows.push_back(made_up_row("single", 1, 0, 100, "aa", {3, 2}));
    rows.back().plan = run;
  }
  return rows;
}

TEST_F(Results, ResumingWithOtherCasesKeepsThoseThatAreThere) {
  Experiment asked(made_up_experiment());
  asked.common.compare.repeats = 1;
  asked.common.compare.schemes = {"single"};
  asked.cases = {case_of_text("ddp: train.precision=bf16"), case_of_text("ps: model.layers=2"),
                 case_of_text("ps: model.layers=2, train.batch_per_rank=1")};
  const auto before = plan_comparison(asked);
  auto rows = rows_of(before);
  EXPECT_TRUE(remaining_runs(before, rows, 1).empty());
  asked.cases.erase(asked.cases.begin());
  asked.cases.push_back(case_of_text("ddp: optimizer.lr=0.5"));
  const auto runs = plan_comparison(asked);
  EXPECT_NO_THROW(check_same_experiment(rows, runs));
  for (const RunPlan& run : remaining_runs(runs, rows, 1))
    EXPECT_EQ(run.optimizer.lr, 0.5) << run.id;
  take_lines(rows, runs);
  for (const RunRecord& row : rows)
    EXPECT_EQ(row.plan.listing.line >= static_cast<int>(runs.size()),
              row.plan.train.precision == Precision::bf16)
        << row.plan.id;

  asked.common.train.steps = 40;
  EXPECT_THAT(complaint([&] { check_same_experiment(rows, plan_comparison(asked)); }),
              HasSubstr("train.steps = 6, not 40"));
  asked.common.train.steps = 6;
  asked.cases[0] = case_of_text("ps: model.layers=3, label=ps (layers=2)");
  EXPECT_THAT(complaint([&] { check_same_experiment(rows, plan_comparison(asked)); }),
              HasSubstr("the row of run ps-layers-2-w1-r0 was made with"));
}

TEST_F(Results, ResumingWithAnotherSweepOrSeedsKeepsWhatIsThere) {
  Experiment asked(made_up_experiment());
  asked.common.compare.repeats = 1;
  asked.common.compare.schemes = {"single", "ddp"};
  asked.common.compare.seeds = {1, 2};
  add_to_sweep(asked, parse_assignment("train.precision=[\"fp32\", \"bf16\"]", "test"));
  const auto rows = rows_of(plan_comparison(asked));
  add_to_sweep(asked, parse_assignment("train.precision=[\"fp32\", \"fp16\"]", "test"));
  asked.common.compare.seeds = {1, 2, 3};
  const auto runs = plan_comparison(asked);
  EXPECT_NO_THROW(check_same_experiment(rows, runs));
  for (const RunPlan& run : remaining_runs(runs, rows, 1))
    EXPECT_TRUE(run.train.seed == 3 || run.train.precision == Precision::fp16) << run.id;
}

TEST_F(Results, ResumingWithAnotherFirstPointKeepsTheReferencesOfAll) {
  Experiment asked(made_up_experiment());
  asked.common.compare.repeats = 1;
  asked.common.compare.schemes = {"local_sgd", "ddp"};
  asked.common.train.micro_batch = 2;
  const auto swept = [&](const char* steps) {
    add_to_sweep(asked, parse_assignment(steps, "test"));
    return plan_comparison(asked);
  };
  auto rows = rows_of(swept("train.warmup=[1, 2]"));
  for (const char* other : {"train.warmup=[3, 1, 2]", "train.warmup=[3]"}) {
    const auto runs = swept(other);
    EXPECT_NO_THROW(check_same_experiment(rows, runs)) << other;
    if (runs.size() < rows.size()) continue;
    for (const RunPlan& run : remaining_runs(runs, rows, 1)) EXPECT_EQ(run.train.warmup, 3);
    take_lines(rows, runs);
    for (const RunRecord& row : rows)
      EXPECT_LT(row.plan.listing.line, static_cast<int>(runs.size()));
  }
}

/// Definitions are never slowed.
TEST_F(Results, ResumingKeepsTheDefinitionsOfSlowWorkers) {
  Experiment asked(made_up_experiment());
  asked.common.compare.repeats = 1;
  asked.common.compare.schemes = {"local_sgd"};
  asked.common.compare.worlds = {2};
  asked.common.device.slow = {1, 3};
  const auto runs = plan_comparison(asked);
  auto rows = rows_of(runs);
  EXPECT_EQ(rows.size(), 2U) << "the definition, and the run";
  EXPECT_NO_THROW(check_same_experiment(rows, runs));
  asked.common.device.slow = {1, 2};
  EXPECT_THAT(complaint([&] { check_same_experiment(rows, plan_comparison(asked)); }),
              HasSubstr("device.slow"));
}

TEST_F(Results, ResumingCountsEverySeedOnce) {
  Experiment asked(made_up_experiment());
  asked.common.compare.repeats = 1;
  asked.common.compare.schemes = {"single", "ddp"};
  const auto runs_of = [&](const std::vector<std::int64_t>& seeds) {
    asked.common.compare.seeds = seeds;
    return plan_comparison(asked);
  };
  const auto refusal = [&](const std::vector<std::int64_t>& before,
                           const std::vector<std::int64_t>& now) {
    return complaint([&] { check_same_experiment(rows_of(runs_of(before)), runs_of(now)); });
  };
  EXPECT_EQ(refusal({1}, {1, 2}), "nothing");
  for (const RunPlan& run : remaining_runs(runs_of({1, 2}), rows_of(runs_of({1})), 1))
    EXPECT_EQ(run.train.seed, 2) << run.id;
  EXPECT_THAT(refusal({}, {1, 2}), HasSubstr("was made without compare.seeds; leave it out, or"));
  EXPECT_THAT(refusal({}, {asked.common.train.seed}), HasSubstr("was made without compare.seeds"));
  EXPECT_THAT(refusal({1, 2}, {}), HasSubstr("was made with compare.seeds; give the same seeds"));
  EXPECT_THAT(refusal({1, 2}, {2, 3}),
              HasSubstr("has seed 1, which compare.seeds does not name; add it, or"));
}

TEST_F(Results, ResumingAnotherExperimentIsRefused) {
  auto config = made_up_experiment();
  config.train.steps = 40;
  EXPECT_THAT(
      complaint([&] { check_same_experiment({row("single")}, plan_comparison(config)); }),
      HasSubstr("run single-w1-r0 was made with train.steps = 6, not 40; leave --resume out"));
  config = made_up_experiment();
  config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 1};
  EXPECT_THAT(complaint([&] { check_same_experiment({row("ddp")}, plan_comparison(config)); }),
              HasSubstr("options.bucket_mb = 25.0, not 1.0"));
}

/// A plan whose rank r lives on hosts[r].
RunPlan on_hosts(RunPlan plan, const std::vector<std::string>& hosts) {
  plan.ranks.clear();
  plan.homes.clear();
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const auto number = static_cast<int>(r);
    plan.ranks.push_back({number, number, -1});
    plan.homes.push_back({hosts[r], "10.0.0." + hosts[r], number});
  }
  return plan;
}

TEST_F(Results, ResumingOnOtherHostsAsksWhoSharesOne) {
  const auto refusal = [&](const std::vector<std::string>& before,
                           const std::vector<std::string>& now, HostsConfig config = {}) {
    auto there = row("ddp", 2);
    there.plan = on_hosts(there.plan, before);
    auto run = on_hosts(there.plan, now);
    run.hosts = config;
    for (std::size_t r = 0; r < run.homes.size(); ++r) run.homes[r].agent += 7;
    return complaint([&] { check_same_experiment({there}, {run}); });
  };
  EXPECT_EQ(refusal({"a", "a", "b", "b"}, {"1", "1", "2", "2"}), "nothing");
  EXPECT_EQ(refusal({"a", "a", "b", "b"}, {"b", "b", "a", "a"}), "nothing");
  EXPECT_EQ(refusal({"a", "a", "a", "a"}, {"b", "b", "b", "b"}), "nothing");
  const auto other = HasSubstr(
      "made with its ranks on hosts 1, 1, 2, 2, but now they would be on hosts 1, 2, 1, 2; start "
      "as many processes on each host as before");
  EXPECT_THAT(refusal({"a", "a", "b", "b"}, {"a", "b", "a", "b"}), other);
  EXPECT_THAT(refusal({"a", "a", "b", "b"}, {"a", "a", "a", "a"}),
              HasSubstr("on hosts 1, 1, 1, 1"));
  EXPECT_THAT(
      refusal({"a", "a", "b", "b"}, {"a", "a", "b", "b"}, {.between = InterHostBackend::mpich}),
      HasSubstr("hosts.between = \"gloo\", not \"mpich\""));
}

TEST_F(Results, OneHostOfAJobIsAsGoodAsAHostAlone) {
  auto there = row("ddp", 2);
  RunPlan run = there.plan;
  there.plan = on_hosts(there.plan, {"a", "a"});
  run.ranks = there.plan.ranks;
  EXPECT_EQ(complaint([&] { check_same_experiment({there}, {run}); }), "nothing");
  there.plan = on_hosts(there.plan, {"a", "b"});
  EXPECT_THAT(complaint([&] { check_same_experiment({there}, {run}); }),
              HasSubstr("on hosts 1, 2, but now they would be on hosts 1, 1"));
}

TEST_F(Results, KnowWhatTextTheRunsRead) {
  RunPlan plan;
  temporary_.write("a.txt", "some text");
  plan.data.path = {temporary_.path().string()};
  const DataState before = data_state(plan);
  ResultsFolder folder(temporary_.path() / "results" / "trial");
  EXPECT_FALSE(folder.read_data_state().has_value());
  folder.write("plan.json", plan_json({row("single").plan}, before).dump());
  EXPECT_EQ(first_change(*folder.read_data_state(), data_state(plan)), "");
  temporary_.write("b.txt", "more text");
  EXPECT_THAT(first_change(before, data_state(plan)), HasSubstr("b.txt"));
  temporary_.write("a.txt", "another text");
  EXPECT_THAT(first_change(before, data_state(plan)), HasSubstr("a.txt"));
}

TEST_F(Results, KnowWhatTheRunsRanOn) {
  ResultsFolder folder(path());
  EXPECT_FALSE(folder.read_environment().has_value());
  const nlohmann::json here = {{"built_commit", "abc"},
                               {"program", "0123"},
                               {"git_commit", "abc"},
                               {"cpu", "fast"},
                               {"cores", 2}};
  folder.write("environment.json", here.dump());
  EXPECT_NO_THROW(check_same_environment(*folder.read_environment(), here));
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    auto there = here;
    there[key] = value;
    return complaint([&] { check_same_environment(*folder.read_environment(), there); });
  };
  EXPECT_THAT(
      refused("built_commit", "def"),
      HasSubstr("made with built_commit = \"abc\", but now it is \"def\"; leave --resume out"));
  EXPECT_EQ(refused("git_commit", "def"), "nothing")
      << "what is checked out meanwhile computes nothing";
  EXPECT_EQ(refused("program", "4567"), "nothing") << "the same commit, linked again";
  EXPECT_THAT(refused("cpu", "slow"), HasSubstr("cpu = \"fast\", but now it is \"slow\""));
  EXPECT_THAT(refused("cores", 4), HasSubstr("cores = 2, but now it is 4"));
}

TEST_F(Results, OfCommitsThatDoNotSayAllWantTheSameProgram) {
  for (const char* commit : {"abc-dirty", "unknown"}) {
    const nlohmann::json here = {{"built_commit", commit}, {"program", "0123"}};
    auto there = here;
    EXPECT_NO_THROW(check_same_environment(here, there));
    there["program"] = "4567";
    EXPECT_THAT(complaint([&] { check_same_environment(here, there); }),
                HasSubstr("made with program = \"0123\", but now it is \"4567\""));
  }
}

TEST_F(Results, TellWhichVariablesTheLibrariesHad) {
  const std::vector<std::string> variables = {
      "NVIDIA_TF32_OVERRIDE=1", "CUBLAS_WORKSPACE_CONFIG=:4096:8",
      "CUBLASLT_LOG_LEVEL=1",   "CUDNN_LOGLEVEL_DBG=3",
      "OMP_NUM_THREADS=3",      "GOMP_SPINCOUNT=1",
      "MALLOC_ARENA_MAX=1",     "DNNL_VERBOSE=1",
      "ONEDNN_MAX_CPU_ISA=AVX2"};
  auto more = variables;
  more.emplace_back("HOME=/root");
  const auto kept = describe_environment(more, {"/proc/self/exe", "abc"}, false).at("variables");
  EXPECT_EQ(kept.size(), variables.size());
  for (const std::string& variable : variables) {
    const auto equals = variable.find('=');
    EXPECT_EQ(kept.value(variable.substr(0, equals), ""), variable.substr(equals + 1)) << variable;
  }
}

TEST_F(Results, KeepNoSecretOfTheEnvironment) {
  const std::vector<std::string> variables = {"SLURM_JWT=secret",
                                              "NVIDIA_API_KEY=secret",
                                              "OMPI_MCA_orte_precondition_transports=secret",
                                              "CUDA_TOKEN=secret",
                                              "NCCL_PASSWORD=secret",
                                              "LD_COOKIE=secret",
                                              "PMI_SECURITY_KEY=secret",
                                              "DMLC_PS_CREDENTIALS=secret",
                                              "OMP_SESSION=secret",
                                              "SLURM_RESTD_AUTH=secret",
                                              "TORCHELASTIC_SECRET=secret",
                                              "OMP_NUM_THREADS=1"};
  const auto kept = describe_environment(variables, {"/proc/self/exe", "abc"}, false);
  EXPECT_EQ(kept.at("variables"), nlohmann::ordered_json({{"OMP_NUM_THREADS", "1"}}));
}

TEST_F(Results, TellWhichProgramMadeThem) {
  const auto hash = [&](const std::string& content) {
    const auto environment =
        describe_environment({}, {temporary_.write("it", content), "abc"}, false);
    EXPECT_EQ(environment.at("built_commit"), "abc");
    return environment.at("program").get<std::string>();
  };
  EXPECT_EQ(hash("a program").size(), 32u);
  EXPECT_EQ(hash("a program"), hash("a program"));
  EXPECT_NE(hash("a program"), hash("another"));
  EXPECT_TRUE(describe_environment({}, {"/absent", "abc"}, false).at("program").is_null());
}

}  // namespace
}  // namespace ringside::runner
