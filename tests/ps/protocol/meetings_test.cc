#include "ps/protocol/meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

using ::testing::HasSubstr;

Header request_of(int worker, std::int64_t step) {
  return {.kind = Kind::meet, .worker = worker, .step = step};
}
void hold(Meetings& meetings, std::int64_t step) {
  for (const int worker : {0, 1}) meetings.come(worker, request_of(worker, step));
  for (const Header& reply : meetings.end()) EXPECT_EQ(reply.version, step);
}

TEST(Meetings, AreAfterWholePeriodsAndAfterTheLastStep) {
  Meetings none(2);
  EXPECT_FALSE(none.due());
  EXPECT_FALSE(none.is_over(100));
  EXPECT_THAT(testing::complaint([&] { none.come(0, request_of(0, 1)); }),
              HasSubstr("writes no checkpoints"));
  Meetings meetings(2);
  meetings.plan(3, 11);
  meetings.set_period(4);
  std::vector<std::int64_t> held;
  while (const auto due = meetings.due()) {
    held.push_back(*due);
    EXPECT_FALSE(meetings.is_over(*due));
    hold(meetings, *due);
  }
  EXPECT_THAT(held, ::testing::ElementsAre(4, 8, 11));
  EXPECT_TRUE(meetings.is_over(11));
}

TEST(Meetings, MayBeFarAway) {
  for (const std::int64_t every : {std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
    Meetings meetings(2);
    meetings.plan(every, 100);
    meetings.set_period(500);
    EXPECT_EQ(meetings.due(), 100);
    meetings.restored(60);
    EXPECT_EQ(meetings.due(), 100);
  }
}

TEST(Meetings, AreLeftOutWhileASeatIsEmpty) {
  Meetings meetings(2);
  meetings.plan(5, 20);
  hold(meetings, 5);
  meetings.set_away(1);
  EXPECT_TRUE(meetings.come(0, request_of(0, 10)));
  EXPECT_TRUE(meetings.are_left_out());
  EXPECT_EQ(meetings.end().at(0).version, 0);
  meetings.set_away(0);
  EXPECT_FALSE(meetings.come(1, request_of(1, 10))) << "it was left out";
  EXPECT_EQ(meetings.due(), 15);
  hold(meetings, 15);
}

TEST(Meetings, EndARunThatIsToldToStop) {
  Meetings meetings(2);
  meetings.plan(10, 100);
  meetings.set_period(2);
  hold(meetings, 10);
  meetings.end_after(13);
  EXPECT_EQ(meetings.due(), 14);
  EXPECT_FALSE(meetings.is_over(14)) << "its checkpoint is to be written";
  hold(meetings, 14);
  EXPECT_FALSE(meetings.due());
  EXPECT_TRUE(meetings.is_over(14));
  Meetings at_rest(2);
  at_rest.plan(10, 100);
  hold(at_rest, 10);
  at_rest.end_after(10);
  EXPECT_TRUE(at_rest.is_over(10)) << "the checkpoint is there";
}

TEST(Meetings, AreCancelledWhenAWorkerIsLost) {
  Meetings meetings(2);
  meetings.plan(10, 100);
  meetings.come(1, request_of(1, 10));
  meetings.cancel();
  EXPECT_FALSE(meetings.due());
  EXPECT_EQ(meetings.end()[0].version, 0);
  EXPECT_FALSE(meetings.is_over(10));
  meetings.end_after(12);
  EXPECT_FALSE(meetings.is_over(11));
  EXPECT_TRUE(meetings.is_over(12));
}

TEST(Meetings, RefuseWhoDoesNotBelongThere) {
  Meetings meetings(2);
  meetings.plan(10, 100);
  meetings.come(1, request_of(1, 10));
  EXPECT_THAT(testing::complaint([&] { meetings.come(1, request_of(1, 10)); }),
              HasSubstr("has come to this meeting already"));
  EXPECT_THAT(testing::complaint([&] { meetings.come(0, request_of(0, 20)); }),
              HasSubstr("a meeting after 20 steps, but worker 1 to one after 10"));
  meetings.come(0, request_of(0, 10));
  EXPECT_EQ(meetings.end().size(), 2U);
  EXPECT_THAT(testing::complaint([&] { meetings.come(0, request_of(0, 10)); }),
              HasSubstr("the one before was after 10"));
}

}  // namespace
}  // namespace ringside::ps
