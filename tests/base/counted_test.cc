#include "core/base/counted.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(Counted, HasAPluralForAllNumbersButOne) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
  EXPECT_EQ(counted(1, "micro-batch", "es"), "1 micro-batch");
  EXPECT_EQ(counted(8, "micro-batch", "es"), "8 micro-batches");
}

}  // namespace
}  // namespace ringside
