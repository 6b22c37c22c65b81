// Wrong schedules are refused with the rank, the stage and the micro-batch that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pipeline/makers.h"
#include "tests/pipeline/made_schedules.h"

namespace ringside::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Schedule made(std::string_view name, int ranks, std::int64_t micro_batches) {
  const MakerInfo& row = find_maker(name);
  return row.make(ranks, usual_chunks(row), micro_batches);
}

std::string problem(const Schedule& schedule) {
  try {
    check(schedule);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<Action>::iterator find(Schedule& schedule, int rank, const Action& action) {
  auto& actions = schedule.actions.at(static_cast<std::size_t>(rank));
  const auto found = std::find(actions.begin(), actions.end(), action);
  EXPECT_NE(found, actions.end()) << text_of(action);
  return found;
}

void drop(Schedule& schedule, int rank, const Action& action) {
  const auto found = find(schedule, rank, action);
  schedule.actions[static_cast<std::size_t>(rank)].erase(found);
}

void swap_two(Schedule& schedule, int rank, const Action& a, const Action& b) {
  std::iter_swap(find(schedule, rank, a), find(schedule, rank, b));
}

TEST(Check, NamesAnActionThatIsMissing) {
  Schedule schedule = made("zb_h1", 4, 8);
  drop(schedule, 2, {2, W, 5});
  EXPECT_EQ(problem(schedule),
            "schedule zb_h1: rank 2, stage 2: W of micro-batch 5 is missing; add it");
  schedule = made("1f1b", 4, 8);
  drop(schedule, 1, {1, F, 3});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1, stage 1: F of micro-batch 3 is missing"));
  schedule = made("1f1b", 4, 8);
  drop(schedule, 1, {1, B, 3});
  EXPECT_THAT(problem(schedule),
              HasSubstr("rank 1, stage 1: B of micro-batch 3 is missing, and so are I and W"));
}

TEST(Check, NamesAnActionThatIsThereTwice) {
  Schedule schedule = made("gpipe", 3, 4);
  schedule.actions[1].push_back({1, B, 2});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1, stage 1: B of micro-batch 2 is there twice"));
  schedule = made("gpipe", 3, 4);
  schedule.actions[1].push_back({1, W, 2});
  EXPECT_THAT(problem(schedule), HasSubstr("W of micro-batch 2 is there twice: B does it too"));
}

TEST(Check, NamesAnActionThatComesBeforeWhatItNeeds) {
  Schedule schedule = made("zb_h1", 4, 8);
  swap_two(schedule, 0, {0, I, 1}, {0, W, 1});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 0, stage 0: W of micro-batch 1 comes before 0I1"));
  schedule = made("1f1b", 4, 8);
  swap_two(schedule, 3, {3, F, 0}, {3, B, 0});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 3, stage 3: B of micro-batch 0 comes before 3F0"));
  schedule = made("zb_v", 2, 4);  // stages 1 and 2 are both on rank 1
  swap_two(schedule, 1, {1, F, 0}, {2, F, 0});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1, stage 2: F of micro-batch 0 comes before 1F0"));
}

/// A backward computes with what the forward of its own micro-batch has kept, and nothing else.
TEST(Check, NamesABackwardThatWouldFindStaleActivations) {
  Schedule schedule = made("1f1b", 2, 3);
  std::replace(schedule.actions[1].begin(), schedule.actions[1].end(), Action{1, F, 1},
               Action{1, F, 0});
  EXPECT_EQ(problem(schedule),
            "schedule 1f1b: rank 1, stage 1: F of micro-batch 0 is there twice; leave one out");
  schedule = made("1f1b", 2, 3);
  swap_two(schedule, 0, {0, F, 2}, {0, B, 2});
  EXPECT_EQ(problem(schedule),
            "schedule 1f1b: rank 0, stage 0: B of micro-batch 2 comes before 0F2, which it needs; "
            "put it behind that");
  schedule = made("zb_h1", 2, 3);
  swap_two(schedule, 1, {1, I, 2}, {1, W, 2});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1, stage 1: W of micro-batch 2 comes before 1I2"));
  schedule = with_sends(made("1f1b", 2, 3));
  swap_two(schedule, 1, {1, recv_f, 1}, {1, recv_f, 2});
  EXPECT_THAT(problem(schedule),
              HasSubstr("rank 1, stage 1: F of micro-batch 1 comes before 1RECV_F1"));
  schedule = with_sends(made("1f1b", 2, 3));
  drop(schedule, 0, {0, recv_b, 1});
  EXPECT_THAT(problem(schedule),
              HasSubstr("rank 0, stage 0: RECV_B of micro-batch 1 is missing; add it, "
                        "or leave all sends and receives out"));
}

TEST(Check, NamesMicroBatchesOutOfOrder) {
  Schedule schedule = made("gpipe", 1, 4);
  swap_two(schedule, 0, {0, B, 1}, {0, B, 2});
  EXPECT_THAT(problem(schedule),
              AllOf(HasSubstr("rank 0, stage 0: B of micro-batch 2 comes before 0B1"),
                    HasSubstr("ascending order")));
  schedule = made("gpipe", 3, 4);
  swap_two(schedule, 1, {1, F, 1}, {1, F, 2});
  EXPECT_THAT(problem(schedule),
              HasSubstr("rank 1, stage 1: F of micro-batch 2 comes before that of micro-batch 1, "
                        "which stage 0 on rank 0 passes on first"));
}

TEST(Check, NamesAForwardThatNobodyPassesOnInThatOrder) {
  Schedule schedule = made("gpipe", 2, 2);
  for (int rank = 0; rank < 2; ++rank) swap_two(schedule, rank, {rank, F, 0}, {rank, F, 1});
  EXPECT_EQ(problem(schedule), "") << "forwards may go in any order in which all stages go";
}

TEST(Check, NamesSendsAndReceivesThatAreWrong) {
  const Schedule right = with_sends(made("1f1b", 3, 4));
  Schedule schedule = right;
  drop(schedule, 0, {0, send_f, 2});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 0, stage 0: SEND_F of micro-batch 2 is missing"));
  schedule = right;
  drop(schedule, 1, {1, recv_b, 3});
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1, stage 1: RECV_B of micro-batch 3 is missing"));
  schedule = right;
  schedule.actions[0].insert(schedule.actions[0].begin(), {0, send_f, 1});
  EXPECT_THAT(problem(schedule), HasSubstr("SEND_F of micro-batch 1 is there twice"));
  schedule = right;
  swap_two(schedule, 0, {0, F, 0}, {0, send_f, 0});
  EXPECT_THAT(problem(schedule), HasSubstr("SEND_F of micro-batch 0 comes before 0F0"));
  schedule = right;
  swap_two(schedule, 2, {2, F, 1}, {2, recv_f, 1});
  EXPECT_THAT(problem(schedule), HasSubstr("F of micro-batch 1 comes before 2RECV_F1"));
  schedule = right;
  schedule.actions[2].push_back({2, send_f, 1});
  EXPECT_THAT(problem(schedule),
              HasSubstr("SEND_F of micro-batch 1 has no stage at its other end"));
}

TEST(Check, NamesReceivesOutOfTheOrderOfSends) {
  Schedule schedule = with_sends(made("gpipe", 2, 3));
  swap_two(schedule, 1, {1, recv_f, 0}, {1, recv_f, 1});
  EXPECT_EQ(problem(schedule),
            "schedule gpipe: rank 1, stage 1: RECV_F of micro-batch 1 comes before 1RECV_F0, but "
            "rank 0 sends 0SEND_F0 first; receive in the order of the sends, or leave all sends "
            "and receives out");
}

TEST(Check, NamesSendsWithinARank) {
  Schedule schedule = with_sends(made("zb_v", 2, 3));
  schedule.actions[1].push_back({1, send_f, 1});
  EXPECT_THAT(problem(schedule), HasSubstr("moves a value between stages of one rank"));
}

TEST(Check, NamesTheRanksOfACircle) {
  // Rank 0 has stages 0 and 2, rank 1 stages 1 and 3: each begins with what it gets from the other.
  Schedule schedule{"mine", 1, {0, 1, 0, 1}, {}};
  schedule.actions = {{{2, F, 0}, {0, F, 0}, {2, B, 0}, {0, B, 0}},
                      {{1, F, 0}, {3, F, 0}, {3, B, 0}, {1, B, 0}}};
  EXPECT_EQ(problem(schedule),
            "schedule mine: ranks wait for each other in a circle: rank 0 waits with 2F0 for rank "
            "1, rank 1 waits with 1F0 for rank 0; let one of them do something else first");
  EXPECT_EQ(problem(with_sends(schedule)), problem(schedule));
  std::swap(schedule.actions[0][0], schedule.actions[0][1]);
  EXPECT_EQ(problem(schedule), "");
}

TEST(Check, LeavesARankOutThatOnlyWaitsForTheCircle) {
  Schedule schedule{"mine", 1, {1, 2, 1, 2, 0}, {}};
  schedule.actions = {{{4, F, 0}, {4, B, 0}},
                      {{2, F, 0}, {0, F, 0}, {2, B, 0}, {0, B, 0}},
                      {{1, F, 0}, {3, F, 0}, {3, B, 0}, {1, B, 0}}};
  EXPECT_EQ(problem(schedule),
            "schedule mine: ranks wait for each other in a circle: rank 2 waits with 1F0 for rank "
            "1, rank 1 waits with 2F0 for rank 2; let one of them do something else first");
}

TEST(Check, NamesStagesAndRanksThatDoNotFit) {
  Schedule schedule = made("gpipe", 3, 2);
  schedule.ranks_of[1] = 7;
  EXPECT_THAT(problem(schedule), HasSubstr("stage 1 is on rank 7, but there are 3 ranks"));
  schedule.ranks_of[1] = 0;
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1 has no stage"));
  schedule = made("gpipe", 3, 2);
  schedule.actions[1][0].stage = 2;
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1 has 2F0, but stage 2 is on rank 2"));
  schedule.actions[1][0] = {1, F, 9};
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1: there is no 1F9"));
  schedule.actions[1][0] = {-1, F, 0};
  EXPECT_THAT(problem(schedule), HasSubstr("rank 1: there is no -1F0"));
  schedule = made("gpipe", 3, 2);
  schedule.micro_batches = std::int64_t{1} << 60;
  EXPECT_THAT(problem(schedule), HasSubstr("too few for F of"));
  EXPECT_THAT(problem(Schedule{"none", 0, {}, {}}), HasSubstr("at least one of each"));
}

}  // namespace
}  // namespace ringside::pipeline
