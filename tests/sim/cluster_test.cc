#include "core/sim/cluster.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ringside::sim {
namespace {

TEST(Efficiency, IsLinearInTheLogarithmOfTimeAndConstantBeyondItsPoints) {
  const Efficiency curve{{{1, 0.2}, {100, 0.8}}};
  EXPECT_DOUBLE_EQ(curve.at(0.01), 0.2);
  EXPECT_DOUBLE_EQ(curve.at(1), 0.2);
  EXPECT_DOUBLE_EQ(curve.at(10), 0.5);
  EXPECT_DOUBLE_EQ(curve.at(100), 0.8);
  EXPECT_DOUBLE_EQ(curve.at(1e6), 0.8);
  EXPECT_DOUBLE_EQ(Efficiency{{{5, 0.7}}}.at(3), 0.7);
}

}  // namespace
}  // namespace ringside::sim
