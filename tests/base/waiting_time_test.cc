#include "core/base/waiting_time.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(WaitingTime, IsThatOfTheClockWhileItIsLookedAt) {
  WaitingTime waited(100, 0.5);
  EXPECT_EQ(waited.seconds(100.5), 0.5);
  EXPECT_EQ(waited.seconds(101.25), 1.25);  // 0.75 s later: late, but below 2 * nap_s
}

TEST(WaitingTime, LeavesOutATimeWithoutALook) {
  WaitingTime waited(100, 0.5);
  waited.seconds(100.5);
  EXPECT_EQ(waited.seconds(3700), 1.5);
  EXPECT_EQ(waited.seconds(3700.25), 1.75);
}

}  // namespace
}  // namespace ringside
