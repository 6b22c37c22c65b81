// Runs whose hosts are gone, with attempts that are made up: what the next attempt is, and what the
// record says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/plan/worlds.h"
#include "experiments/runner/plan/one_run.h"
#include "experiments/runner/run/going_on.h"
#include "experiments/runner/run/kept_worlds.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A run of 40 steps at world 3 that can have world 2, on agents 0, 1 and 2.
class GoneHosts : public ::testing::Test {
 protected:
  struct Attempt {
    std::int64_t steps = 0;
    std::string error{};  // empty: it ends well
    std::string gone{};   // agents that are gone after it
    int slots = 3;        // that are left after it
  };

  GoneHosts() {
    ExperimentConfig config;
    config.name = "trial";
    config.data.kind = "synthetic";
    config.train.global_batch = 12;
    config.train.micro_batch = 1;
    config.train.steps = 40;
    config.faults.least_world = 2;
    config.faults.restarts = 1;
    config.in_job = true;
    plan_ = plan_run(config, find_scheme("ddp"), 3, 0);
  }

  RunOutcome run(std::vector<Attempt> attempts) {
    std::size_t made = 0;
    const RunPlaces places{.gone = [&](const RunPlan&) { return std::exchange(gone_, {}); },
                           .place_on_left =
                               [&](const RunPlan& run) {
                                 if (slots_ < 2) throw Error("1 slot is left");
                                 return at_world(run, slots_);
                               }};
    return run_with_restarts(
        plan_, places, [&](const std::string& text) { said_ += text; }, [](const Step&) {},
        [&](const RunPlan& plan, const std::function<void(const Step&)>& on_step) {
          worlds_.push_back(plan.world);
          const Attempt& attempt = attempts.at(made++);
          for (std::int64_t step = 1; step <= attempt.steps; ++step) on_step({step, 2, 0.01, {}});
          gone_ = attempt.gone;
          slots_ = attempt.slots;
          RunOutcome outcome;
          outcome.faults = plan.faults;
          if (!attempt.error.empty()) {
            outcome.row = failed_row(plan, attempt.error);
            return outcome;
          }
          outcome.row.plan = plan;
          outcome.row.ranks.resize(plan.ranks.size());
          outcome.rank_notes.assign(plan.ranks.size(), " on a host");
          return outcome;
        });
  }

  RunPlan plan_;
  std::string gone_, said_;
  int slots_ = 3;
  std::vector<int> worlds_;  // of the attempts
};

TEST_F(GoneHosts, AreLeftOutAndTheRecordIsThatOfTheWholeRun) {
  const RunOutcome outcome = run({{25, "lost", "agent 1 on b", 2}, {40}});
  EXPECT_THAT(worlds_, ElementsAre(3, 2));
  const RunRecord& row = outcome.row;
  EXPECT_EQ(row.plan.world, 3);
  ASSERT_EQ(row.worlds.size(), 2U);
  EXPECT_EQ(row.worlds[0].world, 3);
  EXPECT_EQ(row.worlds[1].world, 2);
  EXPECT_EQ(row.worlds[1].cause, "agent 1 on b is gone");
  EXPECT_EQ(row.worlds[1].from, 0) << "it writes no checkpoints";
  EXPECT_EQ(row.worlds[1].lost_steps, 25);
  EXPECT_GE(row.worlds[1].down_s, row.worlds[1].left_s);
  EXPECT_TRUE(row.restarts.empty());
  ASSERT_EQ(row.ranks.size(), 3U);
  EXPECT_EQ(row.ranks[2].role, "lost");
  EXPECT_THAT(outcome.rank_notes, ElementsAre(" on a host", " on a host", ""));
  EXPECT_THAT(said_, HasSubstr("world 2 after step 0: agent 1 on b is gone\n"));
}

TEST_F(GoneHosts, SpendNoRestartsButKilledRanksDo) {
  const RunOutcome outcome = run({{9, "killed"}, {25, "lost", "agent 1 on b", 2}, {30, "killed"}});
  EXPECT_THAT(worlds_, ElementsAre(3, 3, 2));
  EXPECT_EQ(outcome.row.status, "failed");
  EXPECT_EQ(outcome.row.error,
            "killed (not started again: no host is gone, and faults.restarts = 1 allows no more)");
  EXPECT_EQ(outcome.row.restarts.size(), 1U);
  EXPECT_EQ(outcome.row.plan.world, 3);
}

TEST_F(GoneHosts, MayHaveBeenReplacedByOthersThatWereFree) {
  const RunOutcome outcome = run({{25, "lost", "agent 1 on b", 3}, {40}});
  EXPECT_THAT(worlds_, ElementsAre(3, 3));
  EXPECT_TRUE(outcome.row.worlds.empty());
  ASSERT_EQ(outcome.row.restarts.size(), 1U);
  EXPECT_EQ(outcome.row.restarts[0].lost_steps, 25);
}

TEST_F(GoneHosts, BeforeTheRunMakeItBeginAtASmallerWorld) {
  gone_ = "agent 1 on b, agent 2 on c";
  slots_ = 2;
  const RunOutcome outcome = run({{40}});
  EXPECT_THAT(worlds_, ElementsAre(2));
  ASSERT_EQ(outcome.row.worlds.size(), 1U);
  EXPECT_EQ(outcome.row.worlds[0].cause, "agent 1 on b, agent 2 on c are gone");
  EXPECT_EQ(outcome.row.plan.world, 3);
}

TEST_F(GoneHosts, AreKeptForAnotherJobThatGoesOn) {
  const testing::TemporaryFolder folder;
  plan_.checkpoint.path = folder.path().string();
  EXPECT_TRUE(kept_worlds(plan_, 40).empty());
  run({{25, "lost", "agent 1 on b", 2}, {40}});
  const auto worlds = [](const std::vector<WorldPeriod>& periods) {
    std::vector<int> out;
    for (const WorldPeriod& period : periods) out.push_back(period.world);
    return out;
  };
  EXPECT_THAT(worlds(kept_worlds(plan_, 40)), ElementsAre(3, 2));
  auto kept = kept_worlds(plan_, 40);
  kept.push_back({.from = 30, .world = 3, .cause = "later"});
  keep_worlds(plan_, kept);
  EXPECT_THAT(worlds(kept_worlds(plan_, 20)), ElementsAre(3, 2)) << "a checkpoint before the last";
  EXPECT_THAT(worlds(kept_worlds(plan_, 30)), ElementsAre(3, 2, 3));
  RunPlan other = plan_;
  other.id = "ddp-w3-r1";
  EXPECT_TRUE(kept_worlds(other, 40).empty()) << "of another repeat";
  other = plan_;
  other.worlds.clear();
  EXPECT_TRUE(kept_worlds(other, 40).empty()) << "it cannot have these worlds";
  begin_anew(plan_);
  EXPECT_TRUE(kept_worlds(plan_, 40).empty());
}

TEST_F(GoneHosts, EndTheRunWhereTooFewSlotsAreLeft) {
  const RunOutcome outcome = run({{25, "lost", "agent 1 on b", 1}});
  EXPECT_EQ(outcome.row.error, "lost (not started again: 1 slot is left)");
  gone_ = "agent 1 on b";
  EXPECT_EQ(run({}).row.error, "1 slot is left") << "nor does a later one begin";
}

}  // namespace
}  // namespace ringside::runner
