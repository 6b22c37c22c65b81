#include "core/nn/saved.h"

#include <memory>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "core/nn/slot.h"
#include "tests/support/complaint.h"
#include "tests/support/layer_units.h"
#include "tests/support/micro_batch.h"

namespace ringside {
namespace {

TEST(Saved, ThrowsIfNothingWasKept) {
  const auto device = make_cpu_device(1);
  testing::DropoutUnit unit(*device, "unit", 0.5);
  const Slot<int> slot(unit);
  testing::MicroBatch own;
  EXPECT_TRUE(testing::complaint([&] {
                slot.take(own.saved[0]);
              }).starts_with("backward() finds nothing that forward() kept"));
  slot.keep(own.saved[0], 5);
  EXPECT_FALSE(own.saved[0].empty());
  EXPECT_EQ(slot.look(own.saved[0]), 5);
  EXPECT_EQ(slot.take(own.saved[0]), 5);
  EXPECT_FALSE(slot.has(own.saved[0]));
  EXPECT_TRUE(own.saved[0].empty());
}

TEST(Saved, FreesWhatEachWorkHoldsBeforeTheNext) {
  testing::MicroBatch own;
  const auto held = std::make_shared<int>();
  std::vector<long> owners;
  for (int i = 0; i < 3; ++i)
    own.saved[0].put_off([held, &owners] { owners.push_back(held.use_count()); });
  EXPECT_TRUE(own.saved[0].has_put_off());
  own.saved[0].finish_weights();
  EXPECT_EQ(owners, (std::vector<long>{4, 3, 2}));
  EXPECT_FALSE(own.saved[0].has_put_off());
}

}  // namespace
}  // namespace ringside
