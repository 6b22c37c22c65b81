// Times of flows over the links of a cluster.
#include <gtest/gtest.h>

#include <ctime>
#include <vector>

#include "core/base/error.h"
#include "core/sim/world.h"

namespace ringside::sim {
namespace {

struct Transfer {
  Place from, to;
  double bytes;
  double start = 0;
};

/// Returns the time at which each transfer ends.
std::vector<double> times(const ClusterSpec& cluster, const std::vector<Transfer>& transfers) {
  const auto world = make_world(cluster);
  std::vector<double> end(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i)
    world->spawn("transfer", transfers[i].from, [&, i] {
      const Transfer& transfer = transfers[i];
      world->sleep(transfer.start);
      world->start_flow(transfer.from, transfer.to, transfer.bytes)->wait();
      end[i] = world->now();
    });
  world->run();
  return end;
}

constexpr double near = 1e-9;

ClusterSpec gpus(Topology topology) {
  ClusterSpec cluster;
  cluster.name = "test";
  cluster.machines = 2;
  cluster.devices = 8;
  cluster.host.kind = sim::DeviceKind::cpu;
  cluster.topology = topology;
  cluster.peer = {.gbs = 100, .latency_us = 1};
  cluster.pcie = {.gbs = 20, .latency_us = 2};
  cluster.nics = 2;
  cluster.nic = {.gbs = 10, .latency_us = 5};
  return cluster;
}

ClusterSpec hosts(int machines) {
  ClusterSpec cluster = gpus(Topology::pcie);
  cluster.machines = machines;
  cluster.devices = 1;
  cluster.nics = 1;
  cluster.nic.gbs = 1;
  return cluster;
}

TEST(Platform, IncastSharesTheReceiversNic) {
  std::vector<Transfer> transfers;
  for (int i = 1; i <= 8; ++i) transfers.push_back({{i, 0}, {0, 0}, 100e6});
  for (const double time : times(hosts(9), transfers)) EXPECT_NEAR(time, 0.8 + 9e-6, near);
}

// Sizes like those of a layer's parameters. A transfer that ends leaves its share to the others.
TEST(Platform, IncastOfMixedSizes) {
  const std::vector<double> sizes{1e3, 3e6, 3e6, 12e6, 50e6, 100e6};
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    transfers.push_back({{static_cast<int>(i) + 1, -1}, {0, -1}, sizes[i]});
  const std::vector<double> end = times(hosts(9), transfers);
  double time = 5e-6, done = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    time += (sizes[i] - done) * static_cast<double>(sizes.size() - i) / 1e9;
    done = sizes[i];
    EXPECT_NEAR(end[i], time, near) << i;
  }
}

TEST(Platform, NeighboursInARingDoNotDisturbEachOther) {
  for (const Topology topology : {Topology::nvlink_switch, Topology::pcie}) {
    const bool nvlink = topology == Topology::nvlink_switch;
    std::vector<Transfer> ring;
    for (int i = 0; i < 8; ++i) ring.push_back({{0, i}, {0, (i + 1) % 8}, 1e9});
    for (const double time : times(gpus(topology), ring))
      EXPECT_NEAR(time, nvlink ? 0.01 + 1e-6 : 0.05 + 4e-6, near);
  }
}

// SimGrid by itself would give a larger share to the transfer with the lower latency.
TEST(Platform, SharesDoNotDependOnLatency) {
  ClusterSpec cluster = hosts(3);
  cluster.nic.latency_us = 1000;
  cluster.pcie.latency_us = 9000;
  const std::vector<double> end =
      times(cluster, {{{1, -1}, {0, -1}, 500e6, 0.018}, {{2, 0}, {0, 0}, 500e6}});
  EXPECT_NEAR(end[0], 1.019, near);
  EXPECT_NEAR(end[1], 1.019, near);
}

TEST(Platform, PcieRootIsShared) {
  ClusterSpec cluster = gpus(Topology::pcie);
  const std::vector<Transfer> up{{{0, 0}, {0, -1}, 2e9}, {{0, 1}, {0, -1}, 2e9}};
  for (const double time : times(cluster, up)) EXPECT_NEAR(time, 0.1 + 2e-6, near);
  cluster.pcie_root_gbs = 20;
  for (const double time : times(cluster, up)) EXPECT_NEAR(time, 0.2 + 2e-6, near);
  // Transfers in opposite directions do not share the bandwidth of the root.
  const std::vector<Transfer> both{{{0, 0}, {0, -1}, 2e9}, {{0, -1}, {0, 1}, 2e9}};
  for (const double time : times(cluster, both)) EXPECT_NEAR(time, 0.1 + 2e-6, near);
  // A transfer between devices crosses the root up and down.
  const std::vector<Transfer> pairs{{{0, 0}, {0, 1}, 2e9}, {{0, 2}, {0, 3}, 2e9}};
  for (const double time : times(cluster, pairs)) EXPECT_NEAR(time, 0.2 + 4e-6, near);
}

TEST(Platform, MeshHasLinksOfPairs) {
  ClusterSpec cluster = gpus(Topology::mesh);
  cluster.mesh = {{0, 1}, {0, 2}, {2, 0}};
  cluster.peer.gbs = 25;
  const std::vector<double> end = times(
      cluster,
      {{{0, 0}, {0, 1}, 5e9}, {{0, 1}, {0, 0}, 5e9}, {{0, 0}, {0, 2}, 5e9}, {{0, 0}, {0, 3}, 5e9}});
  EXPECT_NEAR(end[0], 0.2 + 1e-6, near);
  EXPECT_NEAR(end[1], 0.2 + 1e-6, near);
  EXPECT_NEAR(end[2], 0.1 + 1e-6, near);   // two links
  EXPECT_NEAR(end[3], 0.25 + 4e-6, near);  // no link: goes over PCIe
}

TEST(Platform, DevicesShareTheirNic) {
  std::vector<Transfer> transfers;
  for (int i = 0; i < 8; ++i) transfers.push_back({{0, i}, {1, i}, 1e9});
  for (const double time : times(gpus(Topology::nvlink_switch), transfers))
    EXPECT_NEAR(time, 0.4 + 9e-6, near);
  // Devices 0 and 4 use different NICs on both machines.
  const std::vector<double> end =
      times(gpus(Topology::nvlink_switch), {{{0, 0}, {1, 0}, 1e9}, {{0, 4}, {1, 4}, 1e9}});
  for (const double time : end) EXPECT_NEAR(time, 0.1 + 9e-6, near);
  // The host sends through the first NIC, which device 0 uses too.
  const std::vector<double> host =
      times(gpus(Topology::pcie), {{{0, -1}, {1, -1}, 1e9}, {{0, 0}, {1, 4}, 1e9}});
  EXPECT_NEAR(host[0], 0.2 + 5e-6, 1e-5);
  EXPECT_NEAR(host[1], 0.2 + 9e-6, 1e-5);
}

TEST(Platform, OversubscriptionSlowsWhatLeavesTheLeaf) {
  ClusterSpec cluster = hosts(8);
  cluster.machines_per_switch = 4;
  std::vector<Transfer> across, local;
  for (int i = 0; i < 4; ++i) {
    across.push_back({{i, -1}, {i + 4, -1}, 100e6});
    local.push_back({{i, -1}, {(i + 1) % 4, -1}, 100e6});
  }
  for (const double oversubscription : {1.0, 4.0}) {
    cluster.oversubscription = oversubscription;
    for (const double time : times(cluster, across))
      EXPECT_NEAR(time, 0.1 * oversubscription + 5e-6, near);
    for (const double time : times(cluster, local)) EXPECT_NEAR(time, 0.1 + 5e-6, near);
  }
}

TEST(Platform, APlaceToItself) {
  ClusterSpec cluster = gpus(Topology::pcie);
  EXPECT_EQ(times(cluster, {{{0, 0}, {0, 0}, 1e9}})[0], 0);
  cluster.device.kind = sim::DeviceKind::cpu;
  cluster.device.cores = 4;
  const std::vector<Transfer> copies{{{0, 0}, {0, 0}, 1e9}, {{0, 0}, {0, 0}, 1e9}};
  for (const double time : times(cluster, copies)) EXPECT_NEAR(time, 0.1 + 2e-6, near);
  const std::vector<Transfer> there{{{0, 0}, {0, -1}, 1e9}, {{0, -1}, {0, 0}, 1e9}};
  for (const double time : times(cluster, there)) EXPECT_NEAR(time, 0.05 + 2e-6, near);
}

TEST(Platform, LatencyIsThatOfAnEmptyFlow) {
  ClusterSpec cluster = gpus(Topology::mesh);
  cluster.mesh = {{0, 1}};
  const std::vector<Place> places{{0, -1}, {0, 0}, {0, 1}, {0, 2}, {1, -1}, {1, 0}};
  const auto world = make_world(cluster);
  world->spawn("actor", places[0], [&] {
    for (const Place from : places)
      for (const Place to : places) {
        const double begin = world->now();
        world->start_flow(from, to, 0)->wait();
        EXPECT_NEAR(world->now() - begin, world->latency(from, to), 1e-10);
      }
    EXPECT_NEAR(world->latency({0, 0}, {0, 1}), 1e-6, 1e-15);
    EXPECT_NEAR(world->latency({0, 0}, {0, 2}), 4e-6, 1e-15);
    EXPECT_NEAR(world->latency({0, 0}, {0, -1}), 2e-6, 1e-15);
    EXPECT_NEAR(world->latency({0, 0}, {1, 0}), 9e-6, 1e-15);
    EXPECT_NEAR(world->latency({0, -1}, {1, 0}), 7e-6, 1e-15);
    EXPECT_EQ(world->latency({0, 0}, {0, 0}), 0);
  });
  world->run();
}

TEST(Platform, NoBandwidthIsRefused) {
  ClusterSpec cluster = gpus(Topology::pcie);
  cluster.nic.gbs = 0;
  EXPECT_THROW(make_world(cluster), Error);
  cluster.machines = 1;
  EXPECT_NO_THROW(make_world(cluster));
  cluster.pcie.gbs = 0;
  EXPECT_THROW(make_world(cluster), Error);
}

TEST(Platform, AThousandDevicesAreBuiltInASecond) {
  ClusterSpec cluster = gpus(Topology::nvlink_switch);
  cluster.machines = 128;
  cluster.nics = 8;
  cluster.machines_per_switch = 16;
  cluster.pcie_root_gbs = 100;
  const std::clock_t begin = std::clock();  // of this process, whatever else the machine does
  const auto world = make_world(cluster);
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
  for (int machine = 0; machine < 128; ++machine)
    for (int device = 0; device < 8; ++device)
      world->spawn("rank", {machine, device}, [&, machine, device] {
        world->start_flow({machine, device}, {(machine + 1) % 128, device}, 1e9)->wait();
        EXPECT_NEAR(world->now(), 0.1 + 9e-6, near);
      });
  world->run();
}

}  // namespace
}  // namespace ringside::sim
