#include "peer/schemes/consensus_distance.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "core/device/cpu/cpu_device.h"

namespace ringside::peer {
namespace {

class ConsensusDistanceTest : public ::testing::Test {
 protected:
  Tensor tensor(std::initializer_list<float> of) {
    const std::vector<float> values(of);
    Tensor out = device->tensor({static_cast<std::int64_t>(of.size())}, MemoryKind::parameter);
    device->write(out, std::as_bytes(std::span(values)));
    return out;
  }
  std::unique_ptr<Device> device = make_cpu_device(1);
};

TEST_F(ConsensusDistanceTest, IsTheMeanOverAllMeasurements) {
  ConsensusDistance distance(*device, 3);
  const Tensor sum = tensor({2, 4, 4});
  distance.measure(tensor({1, 2, 5}), sum, 0.5F);  // the mean is (1, 2, 2), of norm 3
  distance.measure(tensor({1, 2, 2}), sum, 0.5F);
  distance.measure(tensor({1, 8, 2}), sum, 0.5F);
  const std::vector<SchemeFigure> figures = distance.figures();
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "consensus distance");
  EXPECT_EQ(figures[0].unit, "relative");
  EXPECT_NEAR(figures[0].value, (1.0 + 0.0 + 2.0) / 3, 1e-12);
}

/// Memory does not grow with the run: sums are read from time to time, and all of them count.
TEST_F(ConsensusDistanceTest, CountsAllMeasurementsInTheSameMemory) {
  ConsensusDistance distance(*device, 3);
  const std::int64_t held = device->ledger().current().total();
  const Tensor sum = tensor({2, 4, 4});
  constexpr std::int64_t all = 2 * ConsensusDistance::read_every + 2;
  for (std::int64_t i = 0; i < all; ++i)
    distance.measure(tensor({1, 2, i < all / 2 ? 5.0F : 2.0F}), sum, 0.5F);
  EXPECT_NEAR(distance.figures()[0].value, 0.5, 1e-12);
  EXPECT_EQ(device->ledger().current().total(), held + 3 * 4);  // and the sum
}

}  // namespace
}  // namespace ringside::peer
