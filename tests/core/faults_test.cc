// Faults on purpose: how they are written, and when they strike.
#include "core/plan/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/launch/fault_striker.h"
#include "core/launch/standstill_watch.h"
#include "core/launch/straggler_watch.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Faults, AreReadAsTheyAreWritten) {
  const Fault kill = fault_from("kill worker 1 at step 10");
  EXPECT_EQ(kill.kind, Fault::Kind::kill);
  EXPECT_FALSE(kill.server);
  EXPECT_EQ(kill.number, 1);
  EXPECT_EQ(kill.step, 10);
  const Fault stop = fault_from("stop server 0 at step 20 for 0.5 s");
  EXPECT_EQ(stop.kind, Fault::Kind::stop);
  EXPECT_TRUE(stop.server);
  EXPECT_EQ(stop.amount, 0.5);
  const Fault slow = fault_from("slow worker 3 by 2 from step 40");
  EXPECT_EQ(slow.kind, Fault::Kind::slow);
  EXPECT_EQ(slow.amount, 2);
  EXPECT_EQ(slow.step, 40);
  EXPECT_EQ(fault_from("hang worker 0 at step 1").kind, Fault::Kind::hang);
  EXPECT_EQ(fault_from("flip worker 2 at step 30").kind, Fault::Kind::flip);
  EXPECT_TRUE(fault_from("cut server 0 at step 3").server);
  const Fault poison = fault_from("poison worker 1 at step 10");
  EXPECT_EQ(poison.kind, Fault::Kind::poison);
  EXPECT_EQ(poison.of, 0);
  EXPECT_EQ(fault_from("poison worker 1 of 4 at step 10").of, 4);
}

TEST(Faults, ThatAreNoneAreRefusedWithWhatMayStandThere) {
  for (const char* wrong : {"",
                            "kill",
                            "kill worker",
                            "kill worker 1",
                            "kill worker -1 at step 2",
                            "kill worker 1 at step",
                            "kill worker 1 at step -3",
                            "kill worker 1 at step 3 now",
                            "kill rank 1 at step 3",
                            "stop worker 1 at step 3",
                            "stop worker 1 at step 3 for 0 s",
                            "stop worker 1 at step 3 for 1 min",
                            "stop worker 1 at step 3 for nan s",
                            "slow server 0 by 2 from step 1",
                            "slow worker 0 by 0.5 from step 1",
                            "slow worker 0 by inf from step 1",
                            "cut worker 0 at step 3",
                            "kill worker 1x at step 3",
                            "flip server 0 at step 3",
                            "flip worker 0 from step 3",
                            "poison worker 4 of 4 at step 1",
                            "kill worker 1 of 4 at step 1",
                            "poison server 0 at step 1"})
    EXPECT_THAT(complaint([&] { fault_from(wrong); }), HasSubstr("is no fault; write")) << wrong;
  EXPECT_EQ(kills_per_s("3/h"), 3.0 / 3600);
  EXPECT_EQ(kills_per_s("0.5/s"), 0.5);
  for (const char* wrong : {"", "1", "1/day", "0/s", "-1/s", "nan/s", "1000/s", "/s"})
    EXPECT_THAT(complaint([&] { kills_per_s(wrong); }), HasSubstr("is no rate")) << wrong;
}

RunPlan plan_of(int workers, int servers, std::vector<std::string> faults) {
  RunPlan plan;
  plan.world = workers;
  plan.servers = servers;
  for (int r = 0; r < workers + servers; ++r)
    plan.ranks.push_back(
        {.rank = r, .worker = r < workers ? r : -1, .server = r < workers ? -1 : r - workers});
  plan.faults.plan = std::move(faults);
  return plan;
}

TEST(Faults, MustStrikeRanksThatTheRunHas) {
  check_faults(plan_of(2, 1, {"kill worker 1 at step 1", "kill server 0 at step 1"}));
  check_faults(plan_of(2, 0, {"kill server 0 at step 1"}));
  EXPECT_THAT(complaint([] { check_faults(plan_of(2, 1, {"kill worker 2 at step 1"})); }),
              HasSubstr("the run has 2 workers"));
  EXPECT_THAT(complaint([] { check_faults(plan_of(2, 1, {"kill server 1 at step 1"})); }),
              HasSubstr("the run has 1 servers"));
  RunPlan sixteen_bits = plan_of(2, 0, {"flip worker 1 at step 1"});
  check_faults(sixteen_bits);
  sixteen_bits.train.precision = Precision::bf16;
  EXPECT_THAT(complaint([&] { check_faults(sixteen_bits); }), HasSubstr("heals"));
}

/// The definition has the data of all workers in one rank.
TEST(Faults, PoisonsBelongToTheDataAndSoToTheDefinition) {
  const RunPlan plan = plan_of(3, 0, {"kill worker 1 at step 1", "poison worker 2 at step 4"});
  EXPECT_THAT(poisons_for_definition(plan), ElementsAre("poison worker 2 of 3 at step 4"));
}

/// What a striker does, with the time that the test gives it.
struct Struck {
  explicit Struck(const RunPlan& plan, double now = 0)
      : striker(
            plan, now, [this](int rank, int number) { signals.emplace_back(rank, number); },
            [this](const std::string& text) { said += text; },
            [this](int server, const std::string& fault) { told.emplace_back(server, fault); }) {}
  std::vector<std::pair<int, int>> signals;
  std::vector<std::pair<int, std::string>> told;
  std::string said;
  FaultStriker striker;
};

TEST(FaultStriker, StrikesOnceAtTheStep) {
  RunPlan plan = plan_of(2, 1, {"kill worker 1 at step 3", "kill server 0 at step 5"});
  Struck struck(plan);
  struck.striker.note_progress(1, 2, 1);
  struck.striker.note_progress(0, 3, 1);
  EXPECT_THAT(struck.signals, IsEmpty()) << "another worker's step";
  struck.striker.note_progress(1, 3, 2);
  struck.striker.note_progress(1, 4, 3);
  EXPECT_THAT(struck.signals, ElementsAre(Pair(1, SIGKILL)));
  EXPECT_THAT(struck.said, HasSubstr("kill worker 1 at step 3"));
  plan.faults = struck.striker.faults();  // the run starts again
  Struck again(plan);
  again.striker.note_progress(1, 3, 9);
  EXPECT_THAT(again.signals, IsEmpty()) << "it has struck";
  again.striker.note_progress(0, 5, 10);
  EXPECT_THAT(again.signals, ElementsAre(Pair(2, SIGKILL)));
}

TEST(FaultStriker, TellsAServerWhatNoSignalBringsAbout) {
  const RunPlan plan = plan_of(2, 3,
                               {"cut server 1 at step 2", "flip worker 0 at step 1",
                                "hang worker 1 at step 2", "hang server 2 at step 2"});
  EXPECT_TRUE(strikes_itself(plan, 1));
  EXPECT_TRUE(strikes_itself(plan, 2));
  EXPECT_FALSE(strikes_itself(plan, 0));
  Struck struck(plan);
  struck.striker.note_progress(0, 2, 1);
  struck.striker.note_progress(1, 2, 1);
  EXPECT_THAT(struck.told, ElementsAre(Pair(1, "cut"), Pair(2, "hang")));
  EXPECT_THAT(struck.signals, IsEmpty()) << "workers flip and hang by themselves";
  RunPlan again = plan;
  again.faults = struck.striker.faults();
  EXPECT_THAT(again.faults.struck, ::testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(strikes_itself(again, 1)) << "it has been";
}

TEST(FaultStriker, LetsStoppedRanksGoOn) {
  const RunPlan plan = plan_of(2, 0, {"stop worker 0 at step 1 for 2 s"});
  Struck struck(plan);
  struck.striker.note_progress(0, 1, 10);
  struck.striker.attend(11.9);
  EXPECT_THAT(struck.signals, ElementsAre(Pair(0, SIGSTOP)));
  struck.striker.attend(12);
  struck.striker.attend(13);
  EXPECT_THAT(struck.signals, ElementsAre(Pair(0, SIGSTOP), Pair(0, SIGCONT)));
}

/// Poisson's kills: 4,000 intervals have the mean of the rate within five standard errors, and
/// every rank is struck equally often within as many.
TEST(FaultStriker, DrawsKillsByTheRate) {
  RunPlan plan = plan_of(3, 1, {});
  plan.faults.rate = "6/min";
  const auto kills = [&](std::int64_t seed) {
    plan.faults.seed = seed;
    Struck struck(plan);
    double now = 0;
    for (; struck.signals.size() < 4000; now += 0.05) struck.striker.attend(now);
    std::map<int, int> victims;
    for (const auto& [rank, number] : struck.signals) {
      EXPECT_EQ(number, SIGKILL);
      ++victims[rank];
    }
    EXPECT_NEAR(now / 4000, 10, 5 * 10 / std::sqrt(4000.0));
    EXPECT_EQ(victims.size(), 4u);
    for (const auto& [rank, count] : victims)
      EXPECT_NEAR(count, 1000, 5 * std::sqrt(750.0)) << rank;
    return struck.signals;
  };
  const auto first = kills(1);
  EXPECT_EQ(first, kills(1)) << "the same seed, the same kills";
  EXPECT_NE(first, kills(2));
}

/// The steps of three workers, of which worker 1 takes `times` as long from step 20 on.
std::optional<std::pair<int, int>> flagged(double times,
                                           double step_s = 1) {  // the rank, and after which step
  StragglerWatch watch;
  for (int step = 0; step < 60; ++step)
    for (int rank = 0; rank < 3; ++rank) {
      const double jitter = 1 + 0.2 * std::sin(7.0 * step + rank);
      if (const auto slow =
              watch.note(rank, step_s * jitter * (rank == 1 && step >= 20 ? times : 1.0)))
        return std::pair{slow->rank, step};
    }
  return {};
}

TEST(StragglerWatch, NamesAWorkerAtHalfSpeedWithinTwentySteps) {
  const auto found = flagged(2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 1);
  EXPECT_GE(found->second, 20);
  EXPECT_LE(found->second, 40);
  EXPECT_FALSE(flagged(1)) << "jitter alone";
  EXPECT_FALSE(flagged(2, 1e-4)) << "steps too short to tell";
  EXPECT_FALSE(flagged(1.2));
}

TEST(StragglerWatch, NamesNobodyWhoIsAlone) {
  StragglerWatch watch;
  for (int step = 0; step < 50; ++step) EXPECT_FALSE(watch.note(0, step < 20 ? 1 : 10));
}

TEST(StandstillWatch, NamesWhoDoesNotWaitWhileOthersDo) {
  StandstillWatch watch;
  for (int step = 0; step < 20; ++step)
    for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(watch.note_step(rank, 0.1));
  EXPECT_FALSE(watch.note_beat(1, {6, false})) << "nobody waits for it";
  EXPECT_FALSE(watch.note_beat(0, {6, true}));
  EXPECT_FALSE(watch.note_beat(1, {4.5, false})) << "not yet";
  EXPECT_FALSE(watch.note_beat(2, {8, true}));
  EXPECT_TRUE(watch.note_beat(1, {7, false}));
  EXPECT_FALSE(watch.note_beat(1, {8, false})) << "it is named once";
  EXPECT_FALSE(watch.note_step(0, 9));
  EXPECT_TRUE(watch.note_step(1, 9)) << "it goes on";
  watch.note_step(2, 9);
  EXPECT_FALSE(watch.note_beat(1, {6, false})) << "nobody waits any more";
}

/// All wait where bytes move slowly; long steps are no standstill; the first step may be long.
TEST(StandstillWatch, NamesNobodyWhoWaitsOrWhoseStepsAreLong) {
  StandstillWatch watch;
  for (int rank = 0; rank < 3; ++rank)
    for (double quiet = 3; quiet < 50; ++quiet) EXPECT_FALSE(watch.note_beat(rank, {quiet, true}));
  EXPECT_FALSE(watch.note_beat(1, {29, false})) << "before its first step";
  EXPECT_TRUE(watch.note_beat(1, {31, false}));
  watch.note_step(1, 4);
  EXPECT_FALSE(watch.note_beat(1, {39, false})) << "ten of its steps";
  EXPECT_TRUE(watch.note_beat(1, {41, false}));
}

/// It looks for messages about once a second, and has no steps.
TEST(StandstillWatch, NamesAServerThatLooksForNoMessages) {
  const auto quiet_server = [](double quiet_s) { return Beat{quiet_s, false, true}; };
  StandstillWatch watch;
  EXPECT_FALSE(watch.note_beat(2, quiet_server(6))) << "nobody waits";
  EXPECT_FALSE(watch.note_beat(0, {6, true}));
  EXPECT_FALSE(watch.note_beat(2, quiet_server(4.9)));
  EXPECT_TRUE(watch.note_beat(2, quiet_server(5.1)));
}

}  // namespace
}  // namespace ringside
