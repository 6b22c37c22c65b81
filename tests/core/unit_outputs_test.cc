#include "core/train/unit_outputs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "core/device/cpu/cpu_device.h"

namespace ringside {
namespace {

class Outputs : public ::testing::Test {
 protected:
  void look(std::int64_t micro_batch, std::size_t unit, float value) {
    const std::vector<float> values = {1, value, 3};
    const Tensor output = device_->tensor({3}, MemoryKind::activation);
    device_->write(output, std::as_bytes(std::span(values)));
    outputs_.look_at(*device_, {.micro_batch = micro_batch, .micro_batches = 2}, unit, 3, output);
  }
  void all_finite() {
    for (std::int64_t m = 0; m < 2; ++m)
      for (std::size_t u = 0; u < 3; ++u) look(m, u, 2);
  }
  /// Micro-batch and unit, or "none".
  std::string found() const {
    const auto first = outputs_.first_not_finite();
    return first ? fmt::format("{} {}", first->micro_batch, first->unit) : "none";
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  UnitOutputs outputs_;
};

TEST_F(Outputs, NamesTheFirstUnitThatWasNotFinite) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  all_finite();
  EXPECT_EQ(found(), "none");
  look(1, 2, -infinity);
  EXPECT_EQ(found(), "1 2");
  look(1, 1, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(found(), "1 1");
}

TEST_F(Outputs, ForgetsTheStepBefore) {
  all_finite();
  look(0, 0, std::numeric_limits<float>::infinity());
  EXPECT_EQ(found(), "0 0");
  all_finite();
  EXPECT_EQ(found(), "none");
}

TEST_F(Outputs, OfTheLargestFiniteValuesAreFinite) {
  all_finite();
  look(0, 1, std::numeric_limits<float>::max());
  EXPECT_EQ(found(), "none");
}

}  // namespace
}  // namespace ringside
