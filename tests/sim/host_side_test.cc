// The host side of a simulated device, and its host's work on its values, against closed forms:
// flows over PCIe, the host's roofline.
#include "core/device/sim/sim_host_side.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/device/cpu/cpu_device.h"
#include "core/device/on_host.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::sim {
namespace {

using testing::small_cluster;

constexpr std::int64_t count = 1'000'000;
constexpr double bytes = 4.0 * count;

/// One GPU of machine 0 and its host side.
struct Rank {
  SimDevice& device;
  HostSide& host;
  World& world;
  Tensor own, other;        // of the device
  Tensor hosts, hosts_too;  // of the host
};

/// Runs `body` on each of `ranks` GPUs. Returns the time at which the last one ends.
double run(const ClusterSpec& cluster, int ranks, const std::function<void(const Rank&)>& body,
           bool numerics = false) {
  const auto world = make_world(cluster);
  double end = 0;
  const auto device_at = [&](int index) {
    return make_sim_device(cluster, world.get(), {0, index},
                           numerics ? make_cpu_device(1) : nullptr);
  };
  for (int r = 0; r < ranks; ++r)
    world->spawn("rank", {0, r}, [&, r] {
      const auto device = device_at(r);
      const auto host = make_sim_host_side(*device, device_at(-1));
      const auto tensor = [](Device& at) { return at.tensor({count}, MemoryKind::parameter); };
      body({*device, *host, *world, tensor(*device), tensor(*device), tensor(host->device()),
            tensor(host->device())});
      end = std::max(end, world->now());
    });
  world->run();
  return end;
}

ClusterSpec cluster() {
  ClusterSpec out = small_cluster(2);
  out.pcie = {.gbs = 4, .latency_us = 100};
  return out;
}

double copy_s(double gbs = 4) { return 100e-6 + bytes / (1e9 * gbs); }

TEST(SimHostSide, ACopyTakesTheTimeOfItsFlow) {
  EXPECT_NEAR(run(cluster(), 1, [](const Rank& r) { r.host.fetch(r.own, r.hosts)->wait(); }),
              copy_s(), 1e-9);
  EXPECT_NEAR(
      run(cluster(), 1, [](const Rank& r) { r.host.store(r.hosts, r.own, nullptr)->wait(); }),
      copy_s(), 1e-9);
}

TEST(SimHostSide, CopiesOfOneWayFollowEachOtherAndBothWaysRunAtOnce) {
  const double end = run(cluster(), 1, [](const Rank& r) {
    const auto first = r.host.fetch(r.own, r.hosts), second = r.host.fetch(r.other, r.hosts_too);
    const auto back = r.host.store(r.hosts_too, r.own, first);
    second->wait();
    back->wait();
    EXPECT_NEAR(first->span().end, copy_s(), 1e-9);
    EXPECT_NEAR(second->span().begin, copy_s(), 1e-9);
    EXPECT_NEAR(back->span().begin, copy_s(), 1e-9) << "after the task that it names";
  });
  EXPECT_NEAR(end, 2 * copy_s(), 1e-9);
}

TEST(SimHostSide, GpusUnderOnePcieRootShareIt) {
  ClusterSpec shared = cluster();
  const auto both_fetch = [](const Rank& r) { r.host.fetch(r.own, r.hosts)->wait(); };
  EXPECT_NEAR(run(shared, 2, both_fetch), copy_s(), 1e-9);
  shared.pcie_root_gbs = 4;
  EXPECT_NEAR(run(shared, 2, both_fetch), copy_s(2), 1e-9);
}

TEST(SimHostSide, WorkTakesTheRooflineOfAllCoresAndRanksShareThem) {
  const ClusterSpec spec = cluster();  // 8 cores
  const auto update = [](const Rank& r) {
    r.host
        .run([&] { r.host.device().kernels().add({.in = r.hosts, .out = r.hosts_too}); }, nullptr)
        ->wait();
    EXPECT_GT(r.host.busy_s(), 0);
  };
  // An addition moves 3 arrays at half of 100 GB/s a core.
  const double alone = (3 * bytes / 50e9 + 2e-6) / 8;
  EXPECT_NEAR(run(spec, 1, update), alone, 1e-9);
  EXPECT_NEAR(run(spec, 2, update), 2 * alone, 1e-9);
}

TEST(SimHostSide, RunsBesideTheDevice) {
  double compute = 0;
  const double end = run(cluster(), 1, [&](const Rank& r) {
    const auto fetched = r.host.fetch(r.own, r.hosts);
    for (int i = 0; i < 10; ++i) r.device.kernels().add({.in = r.own, .out = r.other});
    r.device.synchronize();
    compute = r.world.now();
    fetched->wait();
  });
  EXPECT_GT(compute, copy_s());
  EXPECT_NEAR(end, compute, 1e-9) << "the copy is hidden";
}

TEST(SimHostSide, MovesValuesWithNumerics) {
  run(
      cluster(), 1,
      [](const Rank& r) {
        r.device.kernels().fill({.out = r.own, .value = 3});
        r.device.kernels().fill({.out = r.other, .value = 0});
        const auto fetched = r.host.fetch(r.own, r.hosts);
        const auto added = r.host.run(
            [&] { r.host.device().kernels().add({.in = r.hosts, .out = r.hosts}); }, fetched);
        r.host.store(r.hosts, r.other, added)->wait();
        EXPECT_EQ(r.other.data<float>()[count - 1], 6);
      },
      true);
}

TEST(SimHostSide, TheHostsMemoryIsCountedForAllRanksTogether) {
  ClusterSpec small = cluster();
  small.host.memory_gb = 3.5 * bytes / 1e9;
  const auto stay = [](const Rank& r) { r.host.fetch(r.own, r.hosts)->wait(); };
  EXPECT_NEAR(run(small, 1, stay), copy_s(), 1e-9);
  const std::string error = testing::complaint([&] { run(small, 2, stay); });
  EXPECT_NE(error.find("host): no memory for"), std::string::npos) << error;
  EXPECT_NE(error.find("other ranks on the same device hold"), std::string::npos) << error;
}

TEST(SimHostSide, AFailureReachesEveryWaiter) {
  run(cluster(), 1, [](const Rank& r) {
    const auto failed = r.host.run([] { throw Error("the host gives up"); }, nullptr);
    const auto later = r.host.store(r.hosts, r.own, failed);
    EXPECT_EQ(testing::complaint([&] { later->wait(); }), "the host gives up");
  });
}

TEST(SimHostSide, ARankThatFailsLeavesNothingBehind) {
  const std::string error = testing::complaint([] {
    run(cluster(), 2, [](const Rank& r) {
      const auto fetched = r.host.fetch(r.own, r.hosts);
      const auto stored = r.host.store(r.hosts, r.own, fetched);
      if (r.device.place().device == 0) throw Error("a rank fails");
      stored->wait();
    });
  });
  EXPECT_EQ(error, "a rank fails");
}

/// Lets the host of the rank's device double one tensor and overwrite half of another.
constexpr OpCost doubling{OpClass::elementwise, count, 2 * bytes};
void double_on_host(const Rank& r, int& calls) {
  on_host(r.device, {r.own}, {r.own, r.other.range(0, count / 2)}, doubling,
          [&](HostValues& in, HostValues& out) {
            ++calls;
            for (std::size_t i = 0; i < out.of<float>(0).size(); ++i)
              out.of<float>(0)[i] = 2 * in.of<float>(0)[i];
          });
}
/// One core of the host reaches half of its 100 GB/s.
constexpr double doubling_s = 2 * bytes / 50e9 + 2e-6;
/// The copies before and after it: each a flow of all its tensors.
double copies_s(double gbs = 4) {
  return (100e-6 + bytes / (1e9 * gbs)) + (100e-6 + 1.5 * bytes / (1e9 * gbs));
}

TEST(OnSimulatedHost, TakesTheTimeOfBothCopiesAndOfTheWork) {
  for (const bool numerics : {false, true}) {
    int calls = 0;
    const double end = run(
        cluster(), 1,
        [&](const Rank& r) {
          r.device.kernels().fill({.out = r.own, .value = 3});
          r.device.kernels().fill({.out = r.other, .value = 5});
          r.device.synchronize();
          const double begin = r.world.now();
          double_on_host(r, calls);
          EXPECT_NEAR(r.world.now() - begin, copies_s() + doubling_s, 1e-9);
          if (!numerics) return;
          EXPECT_EQ(r.own.data<float>()[count - 1], 6);
          EXPECT_EQ(r.other.data<float>()[count / 2 - 1], 0);
          EXPECT_EQ(r.other.data<float>()[count / 2], 5);
        },
        numerics);
    EXPECT_GT(end, copies_s() + doubling_s);
    EXPECT_EQ(calls, numerics ? 1 : 0) << "without values there is nothing to do";
  }
}

/// The device stands still meanwhile, after it has done what was enqueued before.
TEST(OnSimulatedHost, BeginsAfterTheDeviceAndHidesBehindNothing) {
  int calls = 0;
  const double end = run(cluster(), 1, [&](const Rank& r) {
    for (int i = 0; i < 10; ++i) r.device.kernels().add({.in = r.own, .out = r.other});
    double_on_host(r, calls);
  });
  EXPECT_NEAR(end, 10 * (3 * bytes / 50e9 + 2e-6) + copies_s() + doubling_s, 1e-9);
}

TEST(OnSimulatedHost, CopiesOfRanksShareThePcieRoot) {
  ClusterSpec shared = cluster();
  int calls = 0;
  const auto work = [&](const Rank& r) { double_on_host(r, calls); };
  EXPECT_NEAR(run(shared, 2, work), copies_s() + doubling_s, 1e-9);
  shared.pcie_root_gbs = 4;
  EXPECT_NEAR(run(shared, 2, work), copies_s(2) + doubling_s, 1e-9);
}

TEST(OnSimulatedHost, WithoutTensorsIsTheWorkAlone) {
  const double end = run(cluster(), 1, [&](const Rank& r) {
    on_host(r.device, {}, {}, doubling, [](HostValues&, HostValues&) {});
  });
  EXPECT_NEAR(end, doubling_s, 1e-9);
}

/// A CPU is its own host: its values lie there, and the work is its own.
TEST(OnSimulatedHost, OfACpuHasNoCopies) {
  ClusterSpec spec = cluster();
  spec.device.kind = DeviceKind::cpu;
  spec.device.bandwidth_gbs = 10;
  const auto world = make_world(spec);
  double end = 0;
  world->spawn("rank", {0, 0}, [&] {
    const auto device = make_sim_device(spec, world.get(), {0, 0}, nullptr);
    const Tensor own = device->tensor({count}, MemoryKind::parameter);
    on_host(*device, {own}, {own}, doubling, [](HostValues&, HostValues&) {});
    device->synchronize();
    end = world->now();
  });
  world->run();
  EXPECT_NEAR(end, 2 * bytes / 5e9 + 2e-6, 1e-9);
}

}  // namespace
}  // namespace ringside::sim
