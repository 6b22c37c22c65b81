#include "ps/protocol/consistency.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

TEST(Clocks, AReaderWaitsForEveryWorker) {
  Clocks clocks(3);
  clocks.push(2, 0);
  clocks.push(0, 0);
  EXPECT_EQ(clocks.complete(), 0);
  clocks.push(1, 0);
  EXPECT_EQ(clocks.complete(), 1);
}

TEST(Clocks, AStepOfSeveralPushesIsThereWithItsLast) {
  Clocks clocks(2, 3);
  for (std::int64_t number = 0; number < 3; ++number)
    for (int worker = 0; worker < 2; ++worker) {
      EXPECT_EQ(clocks.complete(), 0);
      EXPECT_EQ(clocks.pushed(worker), 0);
      clocks.push(worker, 0, number);
    }
  EXPECT_EQ(clocks.complete(), 1);
  EXPECT_THROW(clocks.push(0, 1, 1), Error) << "push 0 is due";
  EXPECT_THROW(clocks.push(0, 1, 3), Error) << "there are three";
  clocks.push(0, 1, 0);
  EXPECT_THROW(clocks.push(0, 1, 0), Error) << "it was there";
  EXPECT_THROW(clocks.push(0, 1, 1), Error) << "worker 1's push 0 is missing";
}

TEST(Clocks, RefusesAStepThatIsNotTheNextAndStaysAsItWas) {
  Clocks clocks(2);
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
