#include "ps/consistency.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

TEST(Consistency, BspIsTheOneThatServersKeep) {
  EXPECT_EQ(staleness_bound("bsp"), 0);
  for (const char* other : {"ssp", "asp", "BSP", ""}) {
    try {
      staleness_bound(other);
      FAIL() << other;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("'{}'", other)), std::string::npos);
    }
  }
}

TEST(Clocks, BoundZeroWaitsForEveryWorker) {
  Clocks clocks(3, 0);
  EXPECT_TRUE(clocks.may_read(0));
  clocks.push(2, 0);
  clocks.push(0, 0);
  EXPECT_EQ(clocks.complete(), 0);
  EXPECT_FALSE(clocks.may_read(1));
  clocks.push(1, 0);
  EXPECT_EQ(clocks.complete(), 1);
  EXPECT_TRUE(clocks.may_read(1));
}

TEST(Clocks, ABoundLetsAWorkerRunAheadThatFar) {
  Clocks clocks(2, 2);
  clocks.push(0, 0);
  clocks.push(0, 1);
  EXPECT_TRUE(clocks.may_read(2));
  clocks.push(0, 2);
  EXPECT_FALSE(clocks.may_read(3));
  EXPECT_THROW(clocks.push(0, 3), Error);
  clocks.push(1, 0);
  EXPECT_TRUE(clocks.may_read(3));
}

TEST(Clocks, UnboundedNeverWaits) {
  Clocks clocks(2, unbounded);
  for (int step = 0; step < 10; ++step) clocks.push(0, step);
  EXPECT_TRUE(clocks.may_read(10));
  EXPECT_EQ(clocks.complete(), 0);
}

TEST(Clocks, RefusesAStepThatIsNotTheNextAndStaysAsItWas) {
  Clocks clocks(2, 0);
  EXPECT_THROW(clocks.push(0, 1), Error);
  clocks.push(0, 0);
  EXPECT_THROW(clocks.push(0, 0), Error);
  EXPECT_THROW(clocks.push(0, 1), Error) << "worker 1 has not pushed step 0";
  EXPECT_EQ(clocks.pushed(0), 1);
  clocks.push(1, 0);
  clocks.push(0, 1);
  EXPECT_EQ(clocks.pushed(0), 2);
}

}  // namespace
}  // namespace ringside::ps
