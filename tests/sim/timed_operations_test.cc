// Operations whose times a cluster file has.
#include "core/device/sim/timed_operations.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/device/sim/sim_device.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::sim {
namespace {

using testing::complaint;
using testing::small_cluster;

const std::vector<TimedOperation> known = {{"a", "fp32", "optimizer", 700, 1000, 10},
                                           {"a", "fp32", "optimizer", 1400, 2000, 30},
                                           {"b", "fp32", "optimizer", 1400, 2000, 50},
                                           {"a", "bf16", "optimizer", 700, 1000, 7},
                                           {"a", "fp32", "elementwise", 0, 1000, 3}};

double us_of(const OpCost& cost, const std::string& dtype = "fp32") {
  TimedOperations timed(known);
  return 1e6 * timed.time(cost, dtype).value_or(OpTime{}).all;
}

TEST(TimedOperations, TakeTheTimeOfTheirCostClassAndDtype) {
  EXPECT_NEAR(us_of({OpClass::optimizer, 700, 1000}), 10, 1e-12);
  EXPECT_NEAR(us_of({OpClass::optimizer, 700, 1000}, "bf16"), 7, 1e-12);
  EXPECT_NEAR(us_of({OpClass::optimizer, 1400, 2000}), 40, 1e-12) << "the mean of two trainings";
}

TEST(TimedOperations, OneOfAnotherSizeStandsInForTheSameKernel) {
  EXPECT_NEAR(us_of({OpClass::optimizer, 350, 500}), 5, 1e-12);
  EXPECT_NEAR(us_of({OpClass::optimizer, 5600, 8000}), 160, 1e-12);
  EXPECT_NEAR(us_of({OpClass::elementwise, 0, 500}), 1.5, 1e-12);
  EXPECT_EQ(us_of({OpClass::optimizer, 7000, 10000}), 0) << "more than four times as large";
  EXPECT_EQ(us_of({OpClass::optimizer, 300, 1000}), 0) << "other operations a byte: SGD, not AdamW";
  EXPECT_EQ(us_of({OpClass::elementwise, 100, 1000}), 0);
  EXPECT_EQ(us_of({OpClass::loss, 700, 1000}), 0);
  EXPECT_EQ(us_of({OpClass::optimizer, 0, 0}), 0);
  EXPECT_EQ(us_of({OpClass::optimizer, 700, 1000}, "fp16"), 0);
}

TEST(TimedOperations, OfTwoThatAreAsFarAwayTheLargerOneStandsIn) {
  TimedOperations timed({{"a", "fp32", "loss", 0, 1000, 10}, {"a", "fp32", "loss", 0, 4000, 80}});
  EXPECT_NEAR(timed.time({OpClass::loss, 0, 2000}, "fp32").value().all, 40e-6, 1e-18);
}

TEST(TimedOperations, NameAClassThatThereIs) {
  EXPECT_EQ(complaint([] {
              TimedOperations({{"a", "fp32", "sorting", 0, 1, 1}});
            }).substr(0, 65),
            "an operation that was timed is of class 'sorting'; there are line");
}

TEST(TimedOperations, ADeviceTakesTheirTimeAndNoLaunchBesides) {
  ClusterSpec cluster = small_cluster(1);
  const auto seconds = [&](std::int64_t count) {
    const auto device = make_sim_device(cluster, nullptr, {0, 0}, nullptr);
    const auto made = [&] { return device->tensor({count}, MemoryKind::workspace); };
    const Mark before = device->mark();
    device->kernels().add({.in = made(), .out = made()});
    return device->seconds(before, device->mark());
  };
  const double by_roofline = 12e6 / 100e9 / 0.5 + 2e-6;
  EXPECT_NEAR(seconds(1000000), by_roofline, 1e-12);
  cluster.timed = {{"a", "fp32", "elementwise", 1e6, 12e6, 1000}};
  EXPECT_NEAR(seconds(1000000), 1e-3, 1e-12);
  EXPECT_NEAR(seconds(500000), 0.5e-3, 1e-12) << "half as much of the same operation";
  EXPECT_NEAR(seconds(10000), 0.01 * (by_roofline - 2e-6) + 2e-6, 1e-12) << "too far away";
  cluster.machines = 2;
  cluster.others = {{.first = 1, .device = cluster.device}};
  cluster.others[0].device.name = "another";
  const auto other = make_sim_device(cluster, nullptr, {1, 0}, nullptr);
  const Tensor theirs = other->tensor({1000000}, MemoryKind::workspace);
  const Mark start = other->mark();
  other->kernels().add({.in = theirs, .out = theirs});
  EXPECT_NEAR(other->seconds(start, other->mark()), by_roofline, 1e-12) << "nor another device";
  const auto host = make_sim_device(cluster, nullptr, {0, -1}, nullptr);
  const Tensor values = host->tensor({1000000}, MemoryKind::workspace);
  const Mark before = host->mark();
  host->kernels().add({.in = values, .out = values});
  EXPECT_NEAR(host->seconds(before, host->mark()), by_roofline, 1e-12) << "the host was not timed";
}

}  // namespace
}  // namespace ringside::sim
