// Disturbed runs are made again.
#include "experiments/runner/run/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <sstream>

#include "experiments/runner/results/attempts.h"
#include "tests/experiments/told_events.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Running : public ::testing::Test {
 protected:
  Running() {
    config_ = made_up_experiment();
    config_.data.kind = "synthetic";  // no file that could change
    config_.data.path.clear();
    config_.compare.schemes = {"single", "ddp"};
    config_.compare.worlds = {2};
    config_.compare.repeats = 1;
    runs_ = plan_comparison(config_);
  }

  /// The row of a run during which other processes used `others` of the machine's two cores.
  RunRecord row(const RunPlan& plan, double others) const {
    RunRecord out = made_up_row(plan.scheme, plan.world, plan.repeat, 100, "a", {2, 1});
    out.plan = plan;
    out.load = MachineLoad{.seconds = 10, .cores = 2, .others_s = 10 * others};
    return out;
  }

  /// Makes the runs that are not finished in the rows `done`. During the attempt that is made i-th,
  /// counted from 0, other processes use others[i] cores; 0 cores if `others` is shorter.
  ComparisonOutcome run(std::vector<double> others, std::vector<RunRecord> done = {}) {
    others_ = std::move(others);
    made_.clear();
    const RunMaker maker{
        [this](const RunPlan& plan, const std::function<void(const Step&)>& on_step) {
          const double load = made_.size() < others_.size() ? others_[made_.size()] : 0;
          if (plan.id.ends_with("-replay")) return RunOutcome{row(plan, 0), !replays_};
          made_.push_back(plan.id);
          for (std::int64_t step = 1; step <= plan.train.steps; ++step) on_step({step, 2, 0.5, {}});
          RunOutcome outcome{row(plan, load)};
          // The history names the attempt.
          const std::size_t attempt = made_.size() - 1;
          outcome.row.ranks.at(0).history = {{0, 1, fmt::format("a{0}r{0}", attempt), false}};
          if (plan.scheme == breaks_) {
            outcome.row = failed_row(plan, "rank 1 is late");
            outcome.collectives = "[{}]";
          }
          return outcome;
        },
        [this] { return static_cast<int>(made_.size()) == interrupted_after_; }, 3};
    told_.events.clear();
    EventFeed feed(
        {&told_}, [] { return 0.0; }, [] { return 0.0; });
    Predictor predictor({}, {});
    ResultsFolder folder(folder_.path() / "results");
    folder.start(done, plan_json(runs_, {}).dump(), "{}");
    const auto remaining = remaining_runs(runs_, done, maker.most_attempts);
    feed.begin("trial", maker.most_attempts, runs_, remaining, done);
    return run_comparison(remaining, std::move(done), {}, folder, maker, predictor, feed);
  }

  std::vector<RunRecord> written() const {
    return ResultsFolder(folder_.path() / "results").read_rows();
  }

  ExperimentConfig config_;
  std::vector<RunPlan> runs_;
  std::vector<double> others_;
  std::vector<std::string> made_;
  int interrupted_after_ = -1;
  bool replays_ = false;  // else replays are interrupted
  std::string breaks_;    // the scheme whose runs fail and leave records of collectives
  testing::Told told_;
  testing::TemporaryFolder folder_;
};

TEST_F(Running, AQuietRunIsMadeOnce) {
  const auto rows = run({}).rows;
  EXPECT_THAT(made_, ::testing::UnorderedElementsAre("single-w1-r0", "ddp-w2-r0"));
  EXPECT_EQ(rows_that_count(rows).size(), 2u);
}

TEST_F(Running, EveryRunIsToldInItsOrder) {
  breaks_ = "ddp";
  run({});
  std::vector<std::string> told;
  for (const ProgressEvent& event : told_.events)
    std::visit(
        [&](const auto& what) {
          std::string name(std::remove_cvref_t<decltype(what)>::name);
          if constexpr (requires { what.run; }) name += " " + what.run;
          told.push_back(name);
        },
        event.what);
  std::vector<std::string> expected = {"comparison_began"};
  for (const std::string& run : made_)  // of six steps in no time the first and the last are told
    for (const char* event : {"run_began ", "step_done ", "step_done ", "run_ended "})
      expected.push_back(event + run);
  EXPECT_EQ(told, expected);
  EXPECT_EQ(told_.all<ComparisonBegan>()[0].runs[0].id, made_[0]);
  for (const RunEnded& ended : told_.all<RunEnded>()) {
    EXPECT_EQ(ended.status, ended.run == "ddp-w2-r0" ? "failed" : "ok");
    EXPECT_EQ(ended.samples_per_s, ended.run == "ddp-w2-r0" ? 0 : 100);
  }
}

TEST_F(Running, ARunThatFailsLeavesItsCollectivesAndSaysWhere) {
  breaks_ = "ddp";
  run({});
  for (const RunRecord& row : written()) {
    const auto file = folder_.path() / "results" / "collectives" / (row.plan.id + ".json");
    EXPECT_EQ(std::filesystem::exists(file), row.plan.scheme == "ddp");
    if (row.plan.scheme != "ddp") continue;
    EXPECT_EQ(row.error,
              "rank 1 is late; the last collectives of all ranks are in "
              "collectives/ddp-w2-r0.json");
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    EXPECT_EQ(text.str(), "[{}]");
  }
}

TEST_F(Running, ADisturbedRunIsMadeAgainUntilItIsQuiet) {
  const auto rows = run({1.0, 0.9, 0}).rows;
  ASSERT_EQ(made_.size(), 4u);
  EXPECT_EQ(made_[0], made_[1]);
  EXPECT_EQ(made_[0], made_[2]);
  EXPECT_NE(made_[0], made_[3]);
  const auto count = rows_that_count(rows);
  ASSERT_EQ(count.size(), 2u);
  EXPECT_EQ(count[0]->attempt, 2);
  const auto ended = told_.all<RunEnded>();
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(ended[0].disturbance, "others used 1.0 of 2 cores");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(told_.all<RunBegan>()[i].attempt, static_cast<int>(i) + 1);
    EXPECT_EQ(ended[i].attempt, static_cast<int>(i) + 1);
    EXPECT_EQ(ended[i].made_again, i < 2);
    EXPECT_TRUE(ended[i].counts) << "each was disturbed less than the one before";
  }
  // The rows of all attempts stay in the file, and say what disturbed the attempt.
  const auto there = written();
  ASSERT_EQ(there.size(), 4u);
  EXPECT_EQ(disturbance(there[1]), "others used 0.9 of 2 cores");
  EXPECT_EQ(rows_that_count(there)[0]->attempt, 2);
}

TEST_F(Running, AfterThreeAttemptsTheLeastDisturbedOneCounts) {
  const auto rows = run({1.0, 0.9, 0.95}).rows;
  ASSERT_EQ(made_.size(), 4u);
  EXPECT_EQ(made_[0], made_[2]);
  EXPECT_EQ(rows_that_count(rows)[0]->attempt, 1);
  const auto ended = told_.all<RunEnded>();
  EXPECT_TRUE(ended[1].counts);
  EXPECT_FALSE(ended[2].counts);
  EXPECT_FALSE(ended[2].made_again);
}

TEST_F(Running, ResumingGoesOnWithTheAttempts) {
  interrupted_after_ = 1;
  const auto first = run({1.0});
  EXPECT_TRUE(first.interrupted);
  EXPECT_THAT(made_, ElementsAre(first.rows[0].plan.id));
  interrupted_after_ = -1;
  const auto rows = run({1.0, 0}, written()).rows;
  ASSERT_EQ(made_.size(), 3u);
  const auto ended = told_.all<RunEnded>();
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_TRUE(ended[0].kept && ended[0].made_again && !ended[1].kept);
  EXPECT_EQ(made_[0], first.rows[0].plan.id);
  EXPECT_EQ(made_[1], first.rows[0].plan.id);
  EXPECT_EQ(rows_that_count(rows)[0]->attempt, 2);
  // A run is not made again if an attempt was undisturbed, or if it has had enough attempts.
  EXPECT_TRUE(remaining_runs(runs_, rows, 3).empty());
  run({}, rows);
  EXPECT_TRUE(made_.empty());
}

TEST_F(Running, AnInterruptedReplayCostsNoRow) {
  runs_[0].promise = Promise::replayed;
  const ComparisonOutcome outcome = run({});
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.unreplayed, runs_[0].id);
  const auto rows = written();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].plan.id, runs_[0].id);
  EXPECT_FALSE(rows[0].replay);
  EXPECT_TRUE(
      std::filesystem::exists(folder_.path() / "results" / "histories" / (runs_[0].id + ".json")));
}

TEST_F(Running, TheHistoriesAreThoseOfTheAttemptThatCounts) {
  replays_ = true;
  runs_[0].promise = Promise::replayed;
  run({1.0, 0.5, 0.7});
  std::stringstream text;
  text << std::ifstream(folder_.path() / "results" / "histories" / (runs_[0].id + ".json")).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("a1r1"));
}

TEST_F(Running, SimulatedRowsAreNeverDisturbed) {
  RunRecord simulated = row(runs_[0], 1.0);
  simulated.load.reset();
  EXPECT_EQ(disturbance(simulated), "");
}

}  // namespace
}  // namespace ringside::runner
