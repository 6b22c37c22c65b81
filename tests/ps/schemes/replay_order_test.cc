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
  const std::vector<ChunkHistory> wrong = {range("r1")};
  EXPECT_THROW(ReplayOrder(wrong, 2).check_end(), Error);
}

TEST(ReplayOrder, RefusesWhatIsNoRecordOfTheRun) {
  EXPECT_THROW(ReplayOrder({}, 2), Error);
  EXPECT_THROW(ReplayOrder({range("a2")}, 2), Error);
  EXPECT_THROW(ReplayOrder({range("x0")}, 2), Error);
  ChunkHistory cut = range("a0");
  cut.cut = true;
  EXPECT_THROW(ReplayOrder({cut}, 2), Error);
}

}  // namespace
}  // namespace ringside::ps
