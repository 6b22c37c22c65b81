// The events of a comparison for listeners, and as lines of JSON.
#include "experiments/runner/run/event_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/tools/watch/event_lines.h"
#include "tests/experiments/told_events.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::tools::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScriptedComparison;
using testing::Told;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST(Feed, TimeLeftFollowsFromEarlierRuns) {
  ScriptedComparison comparison({});
  const auto last_left = [&]() -> std::optional<double> {
    std::optional<double> left;
    std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.seconds_left; }) left = what.seconds_left;
        },
        comparison.told.events.back().what);
    return left;
  };
  comparison.begin();
  comparison.feed.begin_run(0, 1);
  EXPECT_EQ(last_left(), std::nullopt);
  comparison.now += 10;
  comparison.feed.end_run(comparison.row(0, 1), true, false);
  EXPECT_EQ(last_left(), 20) << "as the mean of the earlier runs";
  comparison.feed.begin_run(1, 1);
  EXPECT_EQ(last_left(), 20);
  comparison.now += 4;
  comparison.feed.end_run(comparison.row(1, 1), true, true);
  EXPECT_EQ(last_left(), 8) << "the run is made again";
  comparison.feed.begin_run(1, 2);
  comparison.now += 4;
  comparison.feed.end_run(comparison.row(1, 1), true, false);
  comparison.feed.begin_run(2, 1);
  EXPECT_EQ(last_left(), 4) << "as the earlier run of the same line";
  comparison.now += 1;
  comparison.feed.step({1, 1, 1, {}});
  comparison.now += 1;
  comparison.feed.step({2, 1, 1, {}});
  EXPECT_EQ(last_left(), 4) << "four steps of a second each";
}

TEST(Feed, OfShortStepsTenASecondAreToldAndTheFirstAndTheLast) {
  ScriptedComparison comparison({});
  for (RunPlan& plan : comparison.plans) plan.train.steps = 10'000;
  comparison.begin();
  comparison.feed.begin_run(0, 1);
  for (int step = 1; step <= 10'000; ++step) {
    comparison.now += 0.0004;
    comparison.feed.step({step, 1, 0.0004, {}});
  }
  const auto steps = comparison.told.all<runner::StepDone>();
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(steps.front().step, 1);
  EXPECT_EQ(steps.back().step, 10'000);
  EXPECT_GE(steps.size(), 38u);
  EXPECT_LE(steps.size(), 42u) << "in four seconds";
}

TEST(Feed, EveryEventIsALineThatReadsBack) {
  std::ostringstream out;
  EventLines lines(out);
  ScriptedComparison comparison({&lines});
  comparison.begin({comparison.row(0, 8)});
  comparison.feed.predict(comparison.plans[1], {.step_ms = 480, .memory_peak = 1'900'000});
  comparison.feed.begin_run(0, 1);
  comparison.now += 1.5;
  comparison.feed.step({1, 2.75, 0.5, {}});
  comparison.feed.step({6, std::nan(""), 0, {}});
  RunRecord second = comparison.row(1, 4);
  second.tokens_per_s = 64;
  second.time_ms.exposed = 12.5;
  second.evaluations = {{.step = 6, .loss = 1.75}};
  comparison.feed.end_run(second, true, false);
  comparison.feed.begin_run(1, 1);
  comparison.feed.end_run(failed_row(comparison.plans[2], "rank 1 said \"\xC3\"\n"), true, false);
  comparison.feed.end({runner::ComparisonStatus::failed, 1, "1 of 3 runs failed", "results/trial"});

  std::vector<std::string> names;
  const std::vector<std::string> all = lines_of(out.str());
  ASSERT_EQ(all.size(), comparison.told.events.size()) << "a line each";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto event = nlohmann::json::parse(all[i]);
    names.push_back(event.at("event"));
    EXPECT_GE(event.at("time"), 1.7e9 + 1000);
    const auto again = runner::event_of_line(all[i]);
    ASSERT_TRUE(again);
    EXPECT_EQ(runner::json_line(*again), all[i] + "\n");
    EXPECT_EQ(again->what.index(), comparison.told.events[i].what.index());
  }
  EXPECT_THAT(
      names, ElementsAre("comparison_began", "run_ended", "run_predicted", "run_began", "step_done",
                         "step_done", "run_ended", "run_began", "run_ended", "comparison_ended"));
  const auto at = [&](std::size_t i) { return nlohmann::json::parse(all[i]); };
  EXPECT_EQ(at(0).at("experiment"), "trial");
  ASSERT_EQ(at(0).at("runs").size(), 3u);
  EXPECT_EQ(at(0).at("runs")[2],
            nlohmann::json::parse(R"({"run": "ddp-w2-r1", "label": "ddp", "purpose": "asked",
              "world": 2, "repeat": 1, "line": 1, "steps": 6, "global_batch": 2,
              "simulated": false})"));
  EXPECT_EQ(at(1).at("kept"), true);
  EXPECT_EQ(at(2).at("step_ms"), 480);
  EXPECT_EQ(at(2).at("memory_peak"), 1'900'000);
  EXPECT_EQ(at(4), nlohmann::json::parse(R"({"event": "step_done", "time": 1700001001.5,
    "run": "ddp-w2-r0", "step": 1, "loss": 2.75, "step_ms": 500.0, "samples_per_s": 4.0,
    "seconds_left": null})"));
  EXPECT_TRUE(at(5).at("loss").is_null()) << "not finite";
  EXPECT_TRUE(at(5).at("samples_per_s").is_null());
  EXPECT_EQ(at(6).at("run"), "ddp-w2-r0");
  EXPECT_EQ(at(6).at("status"), "ok");
  EXPECT_EQ(at(6).at("samples_per_s"), 4);
  EXPECT_EQ(at(6).at("tokens_per_s"), 64);
  EXPECT_EQ(at(6).at("step_ms"), 500);
  EXPECT_EQ(at(6).at("exposed_ms"), 12.5);
  EXPECT_EQ(at(6).at("loss"), 1.5);
  EXPECT_EQ(at(6).at("held_out_loss"), 1.75);
  EXPECT_EQ(at(6).at("memory_peak"), 2'000'000);
  EXPECT_EQ(at(6).at("seconds_left"), 1.5);
  EXPECT_EQ(at(8).at("status"), "failed");
  EXPECT_EQ(at(9).at("status"), "failed");
  EXPECT_EQ(at(9).at("exit_status"), 1);
  EXPECT_TRUE(lines.ended());
}

TEST(Feed, AnEventThatIsNotKnownIsNoError) {
  EXPECT_FALSE(runner::event_of_line(R"({"event": "left_out", "bytes": 7})"));
  for (const char* line : {"", "{", "[]", R"({"time": 1})", R"({"event": "run_began", "time": 1})"})
    EXPECT_THAT(testing::complaint([&] { runner::event_of_line(line); }),
                HasSubstr("not an event of a comparison"))
        << line;
}

TEST(EventFile, GoesOnWhereAnotherProcessWasCutShort) {
  const testing::TemporaryFolder folder;
  folder.write("progress.jsonl", "{\"event\":\"run_be");
  const OpenFolder files(folder.path());
  {
    EventFile events(files, "progress.jsonl");
    events.hear({1, runner::RunBegan{"ddp-w2-r0"}});
  }
  EventFile(files, "progress.jsonl").hear({2, runner::RunBegan{"ddp-w2-r1"}});
  const auto lines = lines_of(folder.read("progress.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "{\"event\":\"run_be");
  EXPECT_EQ(std::get<runner::RunBegan>(runner::event_of_line(lines[1])->what).run, "ddp-w2-r0");
  EXPECT_EQ(std::get<runner::RunBegan>(runner::event_of_line(lines[2])->what).run, "ddp-w2-r1");
}

TEST(EventFile, HasOneStepASecond) {
  const testing::TemporaryFolder folder;
  EventFile events(OpenFolder(folder.path()), "progress.jsonl");
  ScriptedComparison comparison({&events});
  for (RunPlan& plan : comparison.plans) plan.train.steps = 1000;
  comparison.begin();
  for (const std::size_t run : {std::size_t{0}, std::size_t{1}}) {
    comparison.feed.begin_run(run, 1);
    for (int step = 1; step <= 100; ++step) {
      comparison.now += 0.05;
      comparison.feed.step({step, 1, 0.05, {}});
    }
    comparison.feed.end_run(comparison.row(run, 40), true, false);
  }
  int steps = 0;
  for (const std::string& line : lines_of(folder.read("progress.jsonl")))
    steps += std::holds_alternative<runner::StepDone>(runner::event_of_line(line)->what);
  EXPECT_EQ(steps, 10) << "of two runs of five seconds";
  EXPECT_GE(comparison.told.all<runner::StepDone>().size(), 50u);
}

TEST(EventFile, SaysThatItCannotBeWrittenButNeverForAStep) {
  const testing::TemporaryFolder folder;
  const OpenFolder files(folder.path());
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    EventFile full(files, "progress.jsonl");
    const auto said = [&](const runner::ProgressEvent& event) {
      return testing::complaint([&] { full.hear(event); });
    };
    const bool silent = said({1, runner::StepDone{"ddp-w2-r0"}}) == "nothing";
    const std::string text = said({1, runner::RunBegan{"ddp-w2-r0"}});
    const bool named =
        text.find("progress.jsonl: cannot be written: File too large") != std::string::npos;
    _exit(silent && named ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ringside::tools::watch
