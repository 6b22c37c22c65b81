// The simulation against steps that are computed by hand.
#include "core/pipeline/simulation.h"

#include <gtest/gtest.h>

#include "core/pipeline/makers.h"
#include "tests/pipeline/made_schedules.h"

namespace ringside::pipeline {
namespace {

/// Two ranks and two micro-batches; F 2 s, B 3 + 1 s; a send takes 0.5 s of the way and 0.25 s
/// more.
class TwoRanks : public ::testing::Test {
 protected:
  Schedule schedule_ = find_maker("gpipe").make(2, 1, 2);
  ScheduleTimes times_ = equal_times(schedule_, {2, 3, 1}, .5, .25);
};

TEST_F(TwoRanks, StepWithoutSendActionsIsTheOneByHand) {
  const SimulatedSchedule out = simulate(schedule_, times_);
  // rank 0: F0 0-2, F1 2-4;  F0 comes at 2.75, F1 at 4.75
  // rank 1: F0 2.75-4.75, F1 4.75-6.75, B0 6.75-10.75, B1 10.75-14.75
  // rank 0: B0 11.5-15.5, B1 15.5-19.5 (its value came at 15.5)
  EXPECT_DOUBLE_EQ(out.actions[0][1].begin, 2);
  EXPECT_DOUBLE_EQ(out.actions[1][0].begin, 2.75);
  EXPECT_DOUBLE_EQ(out.actions[1][1].begin, 4.75);
  EXPECT_DOUBLE_EQ(out.actions[1][3].end, 14.75);
  EXPECT_DOUBLE_EQ(out.actions[0][2].begin, 11.5);
  EXPECT_DOUBLE_EQ(out.whole_s, 19.5);
  EXPECT_DOUBLE_EQ(out.ranks[0].busy, 12);
  EXPECT_DOUBLE_EQ(out.ranks[0].idle(), 7.5);
  EXPECT_DOUBLE_EQ(out.ranks[1].idle(), 0);
  EXPECT_DOUBLE_EQ(out.bubble(), 7.5 / 12);
  EXPECT_DOUBLE_EQ(out.idle(), 7.5);
}

TEST_F(TwoRanks, CriticalPathGoesThroughTheWaysThatDelayTheEnd) {
  const SimulatedSchedule out = simulate(schedule_, times_);
  // 0F0, over to rank 1, its F0, F1 and B0, back to rank 0, its B0 and B1
  const std::vector<ActionPlace> path = {{0, 0}, {1, 0}, {1, 1}, {1, 2}, {0, 2}, {0, 3}};
  EXPECT_EQ(out.critical_path, path);
  EXPECT_DOUBLE_EQ(out.critical_compute_s, 2 + 2 + 2 + 4 + 4 + 4);
  EXPECT_DOUBLE_EQ(out.critical_transfer_s(), 2 * .75);
}

TEST_F(TwoRanks, SendsGoOneAfterTheOtherOnAWay) {
  times_.send_s = 3;  // longer than F
  const SimulatedSchedule out = simulate(schedule_, times_);
  // F0 travels 2-5, F1 not 4-7 but 5-8
  EXPECT_DOUBLE_EQ(out.actions[1][0].begin, 5.25);
  EXPECT_DOUBLE_EQ(out.actions[1][1].begin, 8.25);
}

TEST_F(TwoRanks, ATransferBeginsWhenBothEndsHaveComeToIt) {
  // Rank 1 receives F1 only when it has done F0.
  schedule_ = with_sends(schedule_);
  const std::vector<Action> late = {{1, Operation::receive_forward, 0},
                                    {1, F, 0},
                                    {1, Operation::receive_forward, 1},
                                    {1, F, 1},
                                    {1, B, 0},
                                    {1, Operation::send_backward, 0},
                                    {1, B, 1},
                                    {1, Operation::send_backward, 1}};
  schedule_.actions[1] = late;
  check(schedule_);
  const SimulatedSchedule out = simulate(schedule_, times_);
  EXPECT_DOUBLE_EQ(out.actions[1][0].begin, 0);
  EXPECT_DOUBLE_EQ(out.actions[1][0].end, 2.75);
  EXPECT_DOUBLE_EQ(out.actions[1][2].begin, 4.75) << "F0 has ended";
  EXPECT_DOUBLE_EQ(out.actions[1][3].begin, 5.5);
  EXPECT_DOUBLE_EQ(out.whole_s, 20.25);
}

TEST(Simulation, StagesMayTakeDifferentTimes) {
  const Schedule schedule = find_maker("sequential").make(3, 1, 2);
  ScheduleTimes times{{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}}, 0, 0};
  const SimulatedSchedule out = simulate(schedule, times);
  EXPECT_DOUBLE_EQ(out.whole_s, 2 * 666);
  EXPECT_DOUBLE_EQ(out.ranks[2].busy, 1200);
  EXPECT_DOUBLE_EQ(out.bubble(), (1332.0 - 1200) / 1200);
  EXPECT_DOUBLE_EQ(out.critical_compute_s, out.whole_s);
}

TEST(Simulation, SendsThatTakeNoTimeChangeNothing) {
  for (const MadeSchedule& made : made_schedules()) {
    const ScheduleTimes times = equal_times(made.schedule, {2, 3, 1});
    EXPECT_DOUBLE_EQ(simulate(with_sends(made.schedule), times).whole_s,
                     simulate(made.schedule, times).whole_s)
        << made.label();
  }
}

/// No action begins before the one before it on its rank has ended, nor before what it needs.
TEST(Simulation, NoRankDoesTwoThingsAtOnce) {
  for (const MadeSchedule& made : made_schedules()) {
    const Schedule schedule = with_sends(made.schedule);
    const SimulatedSchedule out = simulate(schedule, equal_times(schedule, {1, 1.2, .9}, .3, .1));
    for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      double now = 0;
      for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
        if (!computes(schedule.actions[rank][i].operation)) continue;
        ASSERT_GE(out.actions[rank][i].begin, now) << made.label();
        now = out.actions[rank][i].end;
      }
    }
    EXPECT_NEAR(out.whole_s, out.critical_compute_s + out.critical_transfer_s(), 1e-9);
  }
}

}  // namespace
}  // namespace ringside::pipeline
