// The real program: events of `compare --json`, and `watch` beside a comparison that runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using testing::Program;

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Live : public ProgramTest {
 protected:
  /// `single` and `ddp` at world 2.
  void experiment_of(int steps) {
    small_gpt(8, 16, "steps = " + std::to_string(steps) + R"(
warmup = 1
global_batch = 4
micro_batch = 2
[compare]
schemes = ["single", "ddp"]
worlds = [2]
repeats = 1
attempts = 1
all_cores = false
)");
  }
  static std::vector<nlohmann::json> events(const std::string& out) {
    std::vector<nlohmann::json> all;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(Live, CompareTellsEventsAndNothingElse) {
  experiment_of(3);
  const Ended ended = run({"compare", "trial.toml", "--json"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("[2/2] "));
  const auto told = events(ended.out);
  ASSERT_GE(told.size(), 10u);
  EXPECT_EQ(told.front().at("event"), "comparison_began");
  EXPECT_EQ(told.front().at("runs").size(), 2u);
  EXPECT_EQ(told.back().at("event"), "comparison_ended");
  EXPECT_EQ(told.back().at("status"), "ok");
  EXPECT_EQ(told.back().at("exit_status"), 0);
  EXPECT_EQ(told.back().at("folder"), "results/trial");
  double time = 0;
  std::vector<std::string> speeds;
  for (const auto& event : told) {
    EXPECT_GE(event.at("time"), time);
    time = event.at("time");
    if (event.at("event") == "run_ended") speeds.push_back(event.at("samples_per_s").dump());
  }
  // They are the figures of the rows.
  std::istringstream rows(folder_.read("results/trial/rows.jsonl"));
  std::vector<std::string> of_rows;
  for (std::string row; std::getline(rows, row);)
    of_rows.push_back(nlohmann::json::parse(row).at("samples_per_s").dump());
  EXPECT_EQ(speeds, of_rows);

  // The folder keeps the same events, and the metrics for scrapers.
  const Ended watched = run({"watch", "results/trial", "--json"});
  EXPECT_EQ(watched.status, 0) << watched.err;
  EXPECT_EQ(watched.out, folder_.read("results/trial/progress.jsonl"));
  EXPECT_EQ(events(watched.out).back(), told.back());
  EXPECT_THAT(folder_.read("results/trial/metrics.prom"),
              HasSubstr("ringside_runs_done{experiment=\"trial\"} 2\n"));
  const Ended shown = run({"watch", "results/trial"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.err, "");
  EXPECT_THAT(shown.out, StartsWith("case    world  runs  samples/s"));
  EXPECT_THAT(shown.out, HasSubstr("\nsingle      1   1/1  "));
  EXPECT_THAT(shown.out, HasSubstr("\ntrial: 2 of 2 runs\n"));
}

TEST_F(Live, ARefusalIsAnEventToo) {
  experiment_of(3);
  const Ended ended = run({"compare", "trial.toml", "--json", "--set", "train.steps=0"});
  EXPECT_EQ(ended.status, 2);
  const auto told = events(ended.out);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].at("status"), "refused");
  EXPECT_EQ(told[0].at("exit_status"), 2);
  EXPECT_THAT(told[0].at("error").get<std::string>(), HasSubstr("train.steps"));
  EXPECT_THAT(ended.err, HasSubstr("train.steps"));
}

TEST_F(Live, WatchFollowsUntilTheProcessDies) {
  experiment_of(100'000'000);
  Program comparison = start({"compare", "trial.toml", "--json"});
  ASSERT_TRUE(comparison.wait_for("step_done"));
  Program watch = start({"watch", "results/trial", "--json"});
  ASSERT_TRUE(watch.wait_for("step_done"));
  const Ended once = run({"watch", "results/trial", "--once"});
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_THAT(once.out, HasSubstr("\ntrial: 0 of 2 runs\n[1/2] "));
  kill(comparison.pid(), SIGKILL);
  const Ended ended = watch.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("results/trial: the comparison ended before its last run"));
  for (const auto& event : events(ended.out)) EXPECT_NE(event.at("event"), "comparison_ended");
}

TEST_F(Live, WatchSeesAnInterruptionAndItsOwn) {
  experiment_of(100'000'000);
  Program comparison = start({"compare", "trial.toml", "--json"});
  ASSERT_TRUE(comparison.wait_for("step_done"));
  Program watch = start({"watch", "results/trial"});
  Program other = start({"watch", "results/trial", "--json"});
  ASSERT_TRUE(other.wait_for("step_done"));
  kill(other.pid(), SIGTERM);
  EXPECT_EQ(other.wait().status, 130);
  kill(comparison.pid(), SIGTERM);
  const Ended interrupted = comparison.wait();
  EXPECT_EQ(interrupted.status, 130);
  EXPECT_EQ(events(interrupted.out).back().at("status"), "interrupted");
  const Ended ended = watch.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("results/trial: interrupted; go on with the same command"));
  EXPECT_THAT(ended.out, HasSubstr("trial: 0 of 2 runs\n"));
}

TEST_F(Live, WatchRefusesWhatIsNoFolderOfResults) {
  EXPECT_EQ(run({"watch", "missing"}).status, 2);
  const Ended ended = run({"watch", "."});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("not a folder of results"));
}

}  // namespace
}  // namespace ringside
