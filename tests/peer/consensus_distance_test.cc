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
  ConsensusDistance distance(*device, 3, 4);  // one more than are made
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

}  // namespace
}  // namespace ringside::peer
