// Work of the host that is part of a step.
#include <gtest/gtest.h>

#include "core/device/cpu/cpu_device.h"
#include "core/device/sim/sim_device.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside {
namespace {

using testing::complaint;
using testing::small_cluster;

constexpr OpCost some_work{OpClass::elementwise, 0, 1e6};
/// The figures of the cluster below: a GPU of 100 GB/s and a CPU of 10 GB/s reach half of it, and
/// begin every operation after 2 us.
constexpr double on_host_s = 1e6 / 5e9 + 2e-6, on_device_s = 1e6 / 50e9 + 2e-6;

sim::ClusterSpec slow_host() {
  auto cluster = small_cluster(1);
  cluster.host.bandwidth_gbs = 10;
  return cluster;
}

/// Lets the device work twice; returns the seconds that pass on its clock.
double seconds(Device& device, int& calls) {
  const double before = device.clock().now();
  for (int i = 0; i < 2; ++i) device.host_work(some_work, [&] { ++calls; });
  return device.clock().now() - before;
}

TEST(HostWork, IsDoneOnceByARealDeviceBeforeTheCallReturns) {
  int calls = 0;
  const auto device = make_cpu_device(1);
  seconds(*device, calls);
  EXPECT_EQ(calls, 2);
}

TEST(HostWork, OfASimulatedGpuTakesTheTimeOfTheHost) {
  int calls = 0;
  const auto device = sim::make_sim_device(slow_host(), nullptr, {0, 0}, nullptr);
  EXPECT_DOUBLE_EQ(seconds(*device, calls), 2 * on_host_s);
  EXPECT_EQ(calls, 0) << "there are no values";
}

TEST(HostWork, OfASimulatedCpuTakesItsOwnTime) {
  int calls = 0;
  auto cluster = slow_host();
  cluster.device.kind = sim::DeviceKind::cpu;
  const auto device = sim::make_sim_device(cluster, nullptr, {0, 0}, nullptr);
  EXPECT_DOUBLE_EQ(seconds(*device, calls), 2 * on_device_s);
  const auto host = sim::make_sim_device(cluster, nullptr, {0, -1}, nullptr);
  EXPECT_DOUBLE_EQ(seconds(*host, calls), 2 * on_host_s);
}

TEST(HostWork, WithNumericsIsDoneAndTakesTheSameTime) {
  int calls = 0;
  const auto device = sim::make_sim_device(slow_host(), nullptr, {0, 0}, make_cpu_device(1));
  EXPECT_DOUBLE_EQ(seconds(*device, calls), 2 * on_host_s);
  EXPECT_EQ(calls, 2);
}

TEST(HostWork, NamesTheHostThatHasNoFiguresForIt) {
  auto cluster = slow_host();
  cluster.host.efficiency["fp32"].erase("elementwise");
  const auto device = sim::make_sim_device(cluster, nullptr, {0, 0}, nullptr);
  EXPECT_EQ(complaint([&] { device->host_work(some_work, [] {}); }),
            "device host: efficiency.fp32.elementwise is missing; add it to the cluster file");
}

}  // namespace
}  // namespace ringside
