// Watching a comparison by the files that another one fills step by step.
#include "experiments/tools/watch/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "experiments/runner/results/results.h"
#include "experiments/tools/watch/event_lines.h"
#include "tests/experiments/told_events.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::tools::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScriptedComparison;

/// The comparison that is watched: it holds the folder, and writes events.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& path, const std::vector<RunRecord>& kept = {})
      : folder(path) {
    folder.start(kept, runner::plan_json(ScriptedComparison({}).plans, {}).dump(), "{}");
    events.emplace(folder.files(), runner::ResultsFolder::events_file);
    comparison.emplace(std::vector<runner::ProgressListener*>{&*events});
  }

  runner::ResultsFolder folder;
  std::optional<EventFile> events;
  std::optional<ScriptedComparison> comparison;
};

class Watching : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "trial"; }
  std::filesystem::path events() const { return path() / runner::ResultsFolder::events_file; }
  /// Adds bytes to the file of events, as a process does that is slow to write a line.
  void add(const std::string& bytes) const {
    std::ofstream(events(), std::ios::app | std::ios::binary) << bytes;
  }
  static std::vector<std::string> names(const Watch::Look& look) {
    std::vector<std::string> out;
    for (const FollowedLine& line : look.lines)
      out.push_back(nlohmann::json::parse(line.line).at("event"));
    return out;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Watching, FollowsStepByStepToTheEnd) {
  std::optional<Writer> writer(path());
  std::filesystem::remove(events());  // it is still measuring speeds
  Watch watch(path());
  EXPECT_EQ(watch.look().state, Watched::preparing);
  writer->events.emplace(writer->folder.files(), runner::ResultsFolder::events_file);
  writer->comparison->begin();
  EXPECT_THAT(names(watch.look()), ElementsAre("comparison_began"));
  EXPECT_EQ(watch.standing().planned(), 3);
  EXPECT_TRUE(watch.look().lines.empty());
  writer->comparison->make(0, 4);
  Watch::Look look = watch.look();
  EXPECT_EQ(look.state, Watched::running);
  EXPECT_THAT(names(look), ElementsAre("run_began", "step_done", "step_done", "step_done",
                                       "step_done", "step_done", "step_done", "run_ended"));
  EXPECT_EQ(watch.standing().done(), 1);
  writer->comparison->feed.end({runner::ComparisonStatus::ok, 0, "", "trial"});
  look = watch.look();
  EXPECT_EQ(look.state, Watched::ended) << "although its process has not let go of the folder yet";
  EXPECT_TRUE(look.complaints.empty());
  EXPECT_EQ(watch.standing().end()->status, runner::ComparisonStatus::ok);
}

TEST_F(Watching, FollowsAWriterInAnotherThread) {
  constexpr int steps = 2000;
  Writer writer(path());
  Watch watch(path());
  std::thread thread([&] {
    ScriptedComparison& comparison = *writer.comparison;
    for (RunPlan& plan : comparison.plans) plan.train.steps = steps;
    comparison.begin();
    comparison.feed.begin_run(0, 1);
    for (int step = 1; step <= steps; ++step) {
      comparison.now += 1;
      comparison.feed.step({step, 2, 1, {}});
    }
    comparison.feed.end({});
  });
  std::int64_t last = 0;
  for (Watched state = Watched::preparing; state != Watched::ended;) {
    const Watch::Look look = watch.look();
    state = look.state;
    EXPECT_TRUE(look.complaints.empty());
    for (const FollowedLine& line : look.lines)
      if (const auto* step = std::get_if<runner::StepDone>(&line.event->what)) {
        EXPECT_EQ(step->step, last + 1);
        last = step->step;
      }
  }
  thread.join();
  EXPECT_EQ(last, steps);
}

TEST_F(Watching, ALineThatIsBeingWrittenIsReadOnceItIsWhole) {
  Writer writer(path());
  writer.comparison->begin();
  Watch watch(path());
  EXPECT_EQ(watch.look().lines.size(), 1u);
  const std::string line = runner::json_line({5, runner::RunBegan{writer.comparison->plans[0].id}});
  add(line.substr(0, 20));
  Watch::Look look = watch.look();
  EXPECT_TRUE(look.lines.empty());
  EXPECT_TRUE(look.complaints.empty());
  add(line.substr(20));
  EXPECT_THAT(names(watch.look()), ElementsAre("run_began"));
  EXPECT_TRUE(watch.standing().present());
  // A line that will never become an event is reported once, with its place.
  add("{\"event\": 7}\n" + line);
  look = watch.look();
  EXPECT_THAT(names(look), ElementsAre("run_began"));
  ASSERT_EQ(look.complaints.size(), 1u);
  EXPECT_THAT(look.complaints[0], HasSubstr("progress.jsonl:3: left out: not an event"));
  EXPECT_TRUE(watch.look().complaints.empty());
  add("{\"event\": \"of a later version\", \"time\": 6}\n");
  look = watch.look();
  ASSERT_EQ(look.lines.size(), 1u) << "passed on as it is";
  EXPECT_FALSE(look.lines[0].event);
}

TEST_F(Watching, AComparisonWhoseProcessIsGoneHasDied) {
  std::optional<Writer> writer(path());
  writer->comparison->begin();
  writer->comparison->make(0, 4);
  writer->comparison->feed.begin_run(1, 1);
  Watch watch(path());
  EXPECT_EQ(watch.look().state, Watched::running);
  writer.reset();
  EXPECT_EQ(watch.look().state, Watched::died);
  EXPECT_EQ(watch.standing().done(), 1);
  EXPECT_EQ(Watch(path()).look().state, Watched::died);
}

TEST_F(Watching, AResumedComparisonIsFollowedFromItsBeginning) {
  RunRecord kept;
  {
    Writer first(path());
    kept = first.comparison->row(0, 4);
    first.comparison->begin();
    first.comparison->make(0, 4);
    first.folder.append(kept);
    first.comparison->feed.end({runner::ComparisonStatus::interrupted, 130, "interrupted", ""});
  }
  Watch early(path());
  EXPECT_EQ(early.look().state, Watched::ended);
  Writer second(path(), {kept});
  Watch watch(path());
  EXPECT_EQ(watch.look().state, Watched::preparing) << "the end is that of the first";
  second.comparison->begin({kept});
  Watch::Look look = watch.look();
  EXPECT_EQ(look.state, Watched::running);
  EXPECT_THAT(names(look), ElementsAre("comparison_began", "run_ended"));
  EXPECT_EQ(watch.standing().done(), 1);
  Watch late(path());
  EXPECT_THAT(names(late.look()), ElementsAre("comparison_began", "run_ended"));
  second.comparison->feed.end({});
  EXPECT_EQ(watch.look().state, Watched::ended);
}

TEST_F(Watching, ANewComparisonInTheFolderIsFollowedToo) {
  std::optional<Writer> writer(path());
  writer->comparison->begin();
  writer->folder.append(writer->comparison->row(0, 4));
  Watch watch(path());
  watch.look();
  writer->comparison->make(0, 4);
  writer.reset();
  writer.emplace(path());
  EXPECT_TRUE(std::filesystem::exists(path() / "before-1" / runner::ResultsFolder::events_file));
  writer->comparison->begin();
  const Watch::Look look = watch.look();
  EXPECT_EQ(look.state, Watched::running);
  EXPECT_THAT(names(look).back(), "comparison_began");
  EXPECT_EQ(look.lines.size(), 9u) << "with the rest of the old file";
  EXPECT_EQ(watch.standing().done(), 0);
  EXPECT_EQ(Watch(path() / "before-1").look().state, Watched::died);
}

TEST_F(Watching, AFolderWithoutEventsIsShownByItsRows) {
  {
    Writer writer(path());
    for (std::size_t run = 0; run < 2; ++run) writer.folder.append(writer.comparison->row(run, 4));
    std::filesystem::remove(events());
  }
  Watch half(path());
  EXPECT_EQ(half.look().state, Watched::died);
  EXPECT_EQ(half.standing().planned(), 3);
  EXPECT_EQ(half.standing().done(), 2);
  {
    runner::ResultsFolder folder(path());
    folder.append(failed_row(ScriptedComparison({}).plans[2], "rank 1 gave up"));
  }
  Watch whole(path());
  const Watch::Look look = whole.look();
  EXPECT_EQ(look.state, Watched::ended);
  EXPECT_THAT(names(look), ElementsAre("comparison_began", "run_ended", "run_ended", "run_ended",
                                       "comparison_ended"));
  EXPECT_EQ(whole.standing().end()->status, runner::ComparisonStatus::failed);
  EXPECT_EQ(whole.standing().end()->error, "1 of 3 runs failed");
  EXPECT_EQ(whole.standing().cases()[0].median()->samples_per_s, 4);
}

TEST_F(Watching, WhatIsNoFolderOfResultsIsRefused) {
  EXPECT_THAT(testing::complaint([&] { Watch(folder_.path() / "missing"); }),
              HasSubstr("no such folder"));
  EXPECT_THAT(testing::complaint([&] { Watch(folder_.path()).look(); }),
              HasSubstr("not a folder of results"));
}

TEST_F(Watching, DoesNotKeepAComparisonFromItsFolder) {
  std::filesystem::create_directory(path());
  std::atomic<bool> asks = true;
  std::thread watcher([&] {
    while (asks) runner::is_held(path());
  });
  for (int i = 0; i < 20; ++i) runner::ResultsFolder folder(path());
  asks = false;
  watcher.join();
}

}  // namespace
}  // namespace ringside::tools::watch
