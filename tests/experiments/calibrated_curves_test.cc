// Rooflines and efficiencies from operations that were timed.
#include "experiments/tools/calibrate/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/device/cost.h"
#include "core/device/sim/sim_device.h"

namespace ringside::tools::calibrate {
namespace {

using ::testing::Contains;
using ::testing::Not;

sim::DeviceSpec roofline() {
  sim::DeviceSpec device;
  device.name = "gpu";
  device.bandwidth_gbs = 1000;
  device.launch_us = 2;
  device.tflops = {{"fp32", 50}, {"bf16", 800}};
  return device;
}

sim::TimedOperation moved(const char* kind, double megabytes, double us) {
  return {.training = {},
          .dtype = "fp32",
          .kind = kind,
          .operations = 0,
          .bytes = 1e6 * megabytes,
          .us = us};
}

double simulated_us(const sim::TimedOperation& op, const sim::DeviceSpec& device) {
  const DType dtype = op.dtype == "bf16" ? DType::bf16 : DType::f32;
  return 1e6 *
         sim::seconds_of({*value_named<OpClass>(op.kind), op.operations, op.bytes, dtype}, device);
}

TEST(CalibratedCurves, TakeThePeakFromTheFastestProductAndTheBandwidthFromTheLongestCopy) {
  sim::DeviceSpec device;
  set_roofline(device, {{"", "bf16", "linear", 8e9, 1e6, 20},
                        {"", "bf16", "linear", 8e9, 1e6, 10},
                        {"", "tf32", "linear", 3e9, 1e6, 10},
                        moved("elementwise", 1, 0.5),
                        moved("elementwise", 100, 50),
                        moved("loss", 1000, 1)});
  EXPECT_DOUBLE_EQ(device.tflops.at("bf16"), 800);
  EXPECT_DOUBLE_EQ(device.tflops.at("tf32"), 300);
  EXPECT_DOUBLE_EQ(device.bandwidth_gbs, 2000);
}

TEST(CalibratedCurves, LetTheOperationsOfAStepTakeTheTimeThatTheyTook) {
  // Ideal times of 1 to 400 us, which reach between a fifth and all of the roofline.
  std::vector<sim::TimedOperation> ops;
  for (int i = 0; i < 40; ++i) {
    const double ideal = std::exp(0.15 * i);
    ops.push_back(moved("normalisation", ideal, ideal / (0.2 + 0.02 * (i * 7 % 40))));
    ops.push_back({"", "bf16", "linear", 8e8 * ideal, 1, ideal / (0.3 + 0.01 * i)});
  }
  sim::DeviceSpec device = roofline();
  set_efficiency(device, ops);
  for (const char* kind : {"normalisation", "linear"}) {
    double taken = 0, simulated = 0;
    for (const sim::TimedOperation& op : ops)
      if (op.kind == kind) {
        taken += op.us;
        simulated += simulated_us(op, device) - device.launch_us;
      }
    EXPECT_NEAR(simulated / taken, 1, 1e-4) << kind;
  }
}

TEST(CalibratedCurves, CountAnOperationAsOftenAsAStepHasIt) {
  std::vector<sim::TimedOperation> ops(9, moved("loss", 100, 200));
  ops.push_back(moved("loss", 101, 400));
  sim::DeviceSpec device = roofline();
  set_efficiency(device, ops);
  const double taken = 9 * 200 + 400;
  EXPECT_NEAR(9 * simulated_us(ops.front(), device) + simulated_us(ops.back(), device),
              taken + 10 * device.launch_us, 1e-6 * taken);
}

TEST(CalibratedCurves, TakeWhatWasNotTimedFromTheNearestThatWasAndSaySo) {
  sim::DeviceSpec device = roofline();
  set_efficiency(device, {moved("elementwise", 100, 125),
                          {"", "bf16", "linear", 8e9, 1, 20},
                          {"", "bf16", "loss", 0, 1e8, 200}});
  const std::vector<std::string> assumed = complete_efficiency(device);
  const auto share = [&](const char* dtype, const char* kind) {
    return device.efficiency.at(dtype).at(kind).points.front().second;
  };
  EXPECT_NEAR(share("bf16", "attention"), 0.5, 1e-9) << "as the products of its dtype";
  EXPECT_NEAR(share("fp32", "linear"), 0.5, 1e-9) << "as the class in another dtype";
  EXPECT_NEAR(share("fp32", "loss"), 0.5, 1e-9) << "as the class in another dtype";
  EXPECT_NEAR(share("bf16", "optimizer"), 0.8, 1e-9) << "as elementwise operations";
  EXPECT_THAT(assumed, Contains("efficiency.fp32.loss"));
  EXPECT_THAT(assumed, Not(Contains("efficiency.bf16.loss")));
  for (const auto& [dtype, classes] : device.efficiency)
    for (const auto& [name, curve] : classes) EXPECT_FALSE(curve.points.empty()) << dtype << name;
}

}  // namespace
}  // namespace ringside::tools::calibrate
