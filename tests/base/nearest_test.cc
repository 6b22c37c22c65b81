#include "core/base/nearest.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(Nearest, NameHasTheFewestEdits) {
  EXPECT_EQ(nearest("steeps", {"seed", "steps", "step"}), "steps");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("ab", {"ac", "ad"}), "ac") << "of several the first";
}

TEST(Nearest, NameMayDifferInCaseAlone) {
  EXPECT_EQ(nearest("DDP", {"dp", "ps", "ddp", "fsdp"}), "ddp");
  EXPECT_EQ(nearest("FSPD", {"dp", "ddp", "fsdp"}), "fsdp");
  EXPECT_EQ(nearest("T3", {"t3", "T3"}), "T3") << "of both cases the own one";
}

}  // namespace
}  // namespace ringside
