#include "ps/schemes/replay_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

using ::testing::ElementsAre;

/// Goes on, and returns the visited events: the range, then the event.
std::vector<std::string> coming(ReplayOrder& walk) {
  std::vector<std::string> events;
  walk.go_on([&](std::size_t range, const RangeEvent& event) {
    events.push_back(std::to_string(range) + ":" + static_cast<char>(event.kind) +
                     std::to_string(event.worker));
  });
  return events;
}

ChunkHistory range(std::string events) { return {0, 4, std::move(events), false}; }

TEST(ReplayOrder, EventsComeOnceTheirWorkersAreSoFar) {
  const std::vector<ChunkHistory> record = {range("a0p1r0"), range("a1r1p0")};
  ReplayOrder walk(record, 2);
  EXPECT_EQ(walk.ranges(), 2u);
  EXPECT_EQ(walk.pushes(0), 1);
  EXPECT_THAT(coming(walk), ElementsAre());
  walk.offer(1);
  walk.ask(1);
  EXPECT_THAT(coming(walk), ElementsAre("1:a1", "1:r1")) << "in range 0 worker 0 comes first";
  EXPECT_FALSE(walk.has_read(1));
  EXPECT_THROW(walk.check_end(), Error) << "worker 0 has pushed nothing";
  walk.offer(0);
  EXPECT_THAT(coming(walk), ElementsAre("0:a0", "0:a1", "0:r1", "1:a0"));
  EXPECT_TRUE(walk.has_read(1));
  walk.ask(0);
  EXPECT_THAT(coming(walk), ElementsAre("0:r0", "1:r0"));
  walk.check_end();
}

TEST(ReplayOrder, GradientsThatCameTooLateAreOfferedToo) {
  const std::vector<ChunkHistory> record = {range("d0a0")};
  ReplayOrder walk(record, 1);
  EXPECT_EQ(walk.pushes(0), 2);
  walk.offer(0);
  EXPECT_THAT(coming(walk), ElementsAre("0:d0"));
  walk.offer(0);
  EXPECT_THAT(coming(walk), ElementsAre("0:a0"));
}

TEST(ReplayOrder, WorkersLeaveAndWorkerZeroReadsAtTheEnd) {
  const std::vector<ChunkHistory> record = {range("g1r0g0")};
  ReplayOrder walk(record, 2);
  EXPECT_THAT(coming(walk), ElementsAre("0:g1"));
  walk.check_end();
  const std::vector<ChunkHistory> late = {range("g1r0c1x3g1")};
  ReplayOrder(late, 2).check_end();
  const std::vector<ChunkHistory> wrong = {range("r1")};
  EXPECT_THROW(ReplayOrder(wrong, 2).check_end(), Error);
}

TEST(ReplayOrder, KnowsTheLocalStepsOfEveryPush) {
  const std::vector<ChunkHistory> record = {range("p0x4a1m0r1p0x2"), range("a1a0x4m0r0r1p0x2")};
  const ReplayOrder walk(record, 2);
  EXPECT_EQ(walk.pushes(0), 2);
  EXPECT_EQ(walk.steps(0, 0), 4);
  EXPECT_EQ(walk.steps(0, 1), 2);
  EXPECT_EQ(walk.steps(1, 0), 1);
  const std::vector<ChunkHistory> other = {range("a0x4"), range("a0x3")};
  EXPECT_THROW(ReplayOrder(other, 1), Error);
}

TEST(ReplayOrder, AMergeComesWhenAllBeforeItHasCome) {
  const std::vector<ChunkHistory> record = {range("a0a1x3m0")};
  ReplayOrder walk(record, 2);
  walk.offer(0);
  EXPECT_THAT(coming(walk), ElementsAre("0:a0"));
  walk.offer(1);
  EXPECT_THAT(coming(walk), ElementsAre("0:a1", "0:m0"));
}

/// The old process has made two pushes, of which range 1 has only the first.
TEST(ReplayOrder, AnotherProcessComesOnceAllPushesOfTheOneBeforeAreComputed) {
  const std::vector<ChunkHistory> record = {range("p1p1g1c1x2r1p1"), range("p1g1c1c1x2r1p1")};
  ReplayOrder walk(record, 2);
  EXPECT_EQ(walk.pushes(1), 2);
  walk.offer(1);
  walk.ask(1);
  EXPECT_THAT(coming(walk), ElementsAre("0:a1", "0:r1", "1:a1", "1:r1", "1:g1"));
  EXPECT_TRUE(walk.has_read(1));
  EXPECT_FALSE(walk.came(1));
  walk.offer(1);
  walk.ask(1);
  EXPECT_THAT(coming(walk),
              ElementsAre("0:a1", "0:r1", "0:g1", "0:c1", "0:r1", "1:c1", "1:c1", "1:r1"));
  EXPECT_EQ(walk.came(1), 2);
  EXPECT_FALSE(walk.came(1));
  EXPECT_TRUE(walk.has_read(1));
  EXPECT_TRUE(walk.computes(1));
  EXPECT_EQ(walk.pushes(1), 1);
  walk.offer(1);
  walk.ask(1);
  EXPECT_THAT(coming(walk), ElementsAre("0:a1", "0:r1", "1:a1", "1:r1"));
  EXPECT_FALSE(walk.computes(1));
  walk.check_end();
}

TEST(ReplayOrder, AProcessMayEndBeforeItPushes) {
  const std::vector<ChunkHistory> record = {range("g1c1x0r1g1c1x3r1d1"), range("g1c1x3r1a1")};
  ReplayOrder walk(record, 2);
  EXPECT_THROW(walk.check_end(), Error);
  const std::vector<ChunkHistory> other = {range("g1c1x0r1g1c1x3r1d1"), range("g1c1x0g1c1x3r1a1")};
  ReplayOrder both(other, 2);
  EXPECT_THAT(coming(both), ElementsAre("0:g1", "0:c1", "0:r1", "0:g1", "0:c1", "0:r1", "1:g1",
                                        "1:c1", "1:g1", "1:c1", "1:r1"));
  EXPECT_EQ(both.came(1), 3);
  EXPECT_TRUE(both.has_read(1));
}

/// In local steps that it never pushed.
TEST(ReplayOrder, ALostWorkerMayHaveReadAfterItsLastPush) {
  const std::vector<ChunkHistory> record = {range("p1r1g1a0")};
  ReplayOrder walk(record, 2);
  walk.offer(1);
  walk.ask(1);
  walk.offer(0);
  EXPECT_THAT(coming(walk), ElementsAre("0:a1", "0:r1", "0:r1", "0:g1", "0:a0"));
}

/// The events that a history gives back.
std::vector<RangeEvent> read_back(const ChunkHistory& history) {
  std::vector<RangeEvent> events;
  for (EventReader reader(history); const auto event = reader.peek(); reader.skip())
    events.push_back(*event);
  return events;
}

TEST(RangeHistory, GivesBackWhatWasAdded) {
  using Kind = RangeEvent::Kind;
  const std::vector<RangeEvent> added = {
      {Kind::accepted, 12, 40}, {Kind::read, 12},       {Kind::accepted, 2},
      {Kind::read, 12},         {Kind::accepted, 2, 7}, {Kind::accepted, 1, 100},
      {Kind::taken, 1},         {Kind::merged, 0},      {Kind::read, 1},
      {Kind::dropped, 3},       {Kind::read, 3},        {Kind::accepted, 11},
      {Kind::read, 1},          {Kind::gone, 11},       {Kind::came, 11, 17},
      {Kind::read, 11},         {Kind::came, 2, 0},     {Kind::came, 3, 1},
      {Kind::skips, 3, 9},      {Kind::accepted, 0, 2}, {Kind::read, 0}};
  ChunkHistory history = range("");
  for (const RangeEvent& event : added) history.add(event, 1000);
  EXPECT_EQ(history.events, "p12x40a2r12a2x7a1x100t1m0r1d3r3a11r1g11c11x17r11c2x0c3s3x9p0x2");
  EXPECT_EQ(read_back(history), added);
}

TEST(ReplayOrder, RefusesWhatIsNoRecordOfTheRun) {
  for (const char* wrong : {"a0x0", "a0x", "a0x-1", "r0x2", "m0x2", "g0x2", "c0x-1", "c0x", "s0x"})
    EXPECT_THROW(read_back(range(wrong)), Error) << wrong;
  EXPECT_THROW(ReplayOrder({}, 2), Error);
  EXPECT_THROW(ReplayOrder({range("a2")}, 2), Error);
  EXPECT_THROW(ReplayOrder({range("x0")}, 2), Error);
  ChunkHistory cut = range("a0");
  cut.cut = true;
  EXPECT_THROW(ReplayOrder({cut}, 2), Error);
}

}  // namespace
}  // namespace ringside::ps
