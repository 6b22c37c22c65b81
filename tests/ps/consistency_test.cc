#include "ps/consistency.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

TEST(Consistency, BspIsTheOneThatServersKeep) {
  EXPECT_NO_THROW(check_consistency("bsp"));
  for (const char* other : {"ssp", "asp", "BSP", ""}) {
    try {
      check_consistency(other);
      FAIL() << other;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("'{}'", other)), std::string::npos);
    }
  }
}

TEST(Clocks, AReaderWaitsForEveryWorker) {
  Clocks clocks(3);
  EXPECT_TRUE(clocks.may_read(0));
  clocks.push(2, 0);
  clocks.push(0, 0);
  EXPECT_EQ(clocks.complete(), 0);
  EXPECT_FALSE(clocks.may_read(1));
  clocks.push(1, 0);
  EXPECT_EQ(clocks.complete(), 1);
  EXPECT_TRUE(clocks.may_read(1));
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
