// The placements of servers by name.
#include "ps/schemes/placement.h"

#include <gtest/gtest.h>

namespace ringside::ps {
namespace {

TEST(PlacementNames, OfEarlierVersionsAreReadAndNotWritten) {
  EXPECT_EQ(value_named<Placement>("beside"), Placement::colocated);
  EXPECT_EQ(value_named<Placement>("colocated"), Placement::colocated);
  EXPECT_EQ(value_named<Placement>("next to"), std::nullopt);
  EXPECT_EQ(name_of(Placement::colocated), "colocated");
}

}  // namespace
}  // namespace ringside::ps
