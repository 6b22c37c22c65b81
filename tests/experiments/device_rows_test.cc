#include <gtest/gtest.h>

#include "core/plan/device_traits.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// A kind without traits would silently have those of a kind that does not exist.
TEST(DeviceRows, EachHasItsTraits) {
  ASSERT_FALSE(device_rows().empty());
  for (const DeviceRow& row : device_rows()) EXPECT_EQ(device_traits(row.name).kind, row.name);
}

}  // namespace
}  // namespace ringside::runner
