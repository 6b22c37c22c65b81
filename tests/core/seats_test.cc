#include "core/launch/seats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Three workers of asp and a server; two may be away.
class SeatsTest : public ::testing::Test {
 protected:
  SeatsTest() {
    plan_.promise = Promise::replayed;
    plan_.world = 3;
    plan_.servers = 1;
    plan_.expendable = 2;
    plan_.faults.least_world = 1;
    for (int r = 0; r < 4; ++r)
      plan_.ranks.push_back({.rank = r, .worker = r < 3 ? r : -1, .server = r < 3 ? -1 : 0});
  }
  Seats make() {
    return {plan_,
            {.start =
                 [this](int rank, const RunPlan& plan) {
                   EXPECT_EQ(plan.resume, "") << "the values are on the servers";
                   started_.push_back(std::to_string(rank) + "/" + std::to_string(plan.generation));
                 },
             .set = [this](const std::string& key, const std::string&) { told_.push_back(key); },
             .kill = [this](int rank) { killed_.push_back(rank); },
             .say = [this](const std::string& text) { said_ += text; },
             .begin_world = [] {}}};
  }
  static std::vector<int> worlds(const Seats& seats) {
    std::vector<int> out;
    for (const WorldPeriod& period : seats.worlds()) out.push_back(period.world);
    return out;
  }
  RunPlan plan_;
  std::vector<std::string> started_, told_;
  std::vector<int> killed_;
  std::string said_;
};

TEST_F(SeatsTest, KilledWorkersAreReplacedAsOftenAsAskedFor) {
  plan_.faults.restarts = 2;
  Seats seats = make();
  plan_.resume = "a checkpoint";
  EXPECT_FALSE(seats.can_lose(0)) << "it reports the parameters";
  EXPECT_FALSE(seats.can_lose(3));
  seats.note_progress(0, 7, 1);
  for (int time = 0; time < 3; ++time) {
    ASSERT_TRUE(seats.can_lose(1));
    seats.lose(1, "killed", 2);
    seats.note_progress(1, 7, 3);
  }
  EXPECT_THAT(started_, ElementsAre("1/1", "1/2"));
  EXPECT_THAT(told_, ElementsAre("lost/worker-1/0", "lost/worker-1/1", "lost/worker-1/2"));
  EXPECT_THAT(worlds(seats), ElementsAre(3, 2, 3, 2, 3, 2));
  EXPECT_EQ(seats.worlds()[1].from, 7);
  EXPECT_EQ(seats.away().at(1), "killed");
  EXPECT_TRUE(seats.can_lose(2));
  seats.lose(2, "killed", 3);
  EXPECT_EQ(seats.away().size(), 2U);
}

TEST_F(SeatsTest, ThoseAwayNowCount) {
  plan_.expendable = 1;
  Seats seats = make();
  seats.lose(1, "killed", 1);
  EXPECT_FALSE(seats.can_lose(2));
  seats.add(2);
  EXPECT_FALSE(seats.can_lose(2)) << "the new process has not begun";
  seats.note_progress(1, 3, 3);
  EXPECT_TRUE(seats.can_lose(2));
}

TEST_F(SeatsTest, AWorkerLeavesAndOneComes) {
  Seats seats = make();
  seats.add(1);
  EXPECT_THAT(said_, HasSubstr("no seat is empty"));
  seats.remove(2);
  EXPECT_THAT(told_, ElementsAre("leave/worker-2/0"));
  EXPECT_FALSE(seats.has_left(2));
  seats.say_left(2);
  EXPECT_TRUE(seats.has_left(2));
  EXPECT_THAT(started_, IsEmpty());
  seats.leave(2);
  EXPECT_THAT(started_, ElementsAre("2/1"));
  EXPECT_TRUE(seats.begins(2));
  seats.note_progress(2, 9, 6);
  EXPECT_FALSE(seats.begins(2));
  EXPECT_EQ(seats.worlds().back().down_s, 5) << "since it was added";
}

TEST_F(SeatsTest, NoMoreLeaveThanTheSmallestWorldAllows) {
  plan_.expendable = 1;
  plan_.faults.least_world = 2;
  Seats seats = make();
  seats.remove(0);
  EXPECT_THAT(said_, HasSubstr("worker 0 does not leave"));
  seats.remove(1);
  seats.remove(2);
  EXPECT_THAT(said_, HasSubstr("worker 2 does not leave: too few would be left"));
  EXPECT_THAT(told_, ElementsAre("leave/worker-1/0"));
}

TEST_F(SeatsTest, AProcessThatComesTooLateIsEnded) {
  plan_.faults.restarts = 5;
  Seats seats = make();
  seats.lose(1, "killed", 1);
  EXPECT_THAT(worlds(seats), ElementsAre(3, 2)) << "it has done no step yet";
  seats.lose(2, "killed", 1);
  seats.note_progress(2, 4, 2);
  seats.end();
  EXPECT_THAT(killed_, ElementsAre(1));
  EXPECT_TRUE(seats.begins(1));
  seats.lose(1, "killed", 2);
  EXPECT_THAT(seats.away().at(1), HasSubstr("when the run was over"));
  EXPECT_EQ(started_.size(), 2U);
}

TEST_F(SeatsTest, WithoutASmallestWorldNobodyComes) {
  plan_.faults.least_world = 0;
  plan_.faults.restarts = 3;
  Seats seats = make();
  seats.lose(1, "killed", 1);
  EXPECT_THAT(started_, IsEmpty());
  EXPECT_THAT(seats.worlds(), IsEmpty());
  EXPECT_EQ(said_, "");
}

}  // namespace
}  // namespace ringside
