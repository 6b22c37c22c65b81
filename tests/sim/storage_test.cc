// The storage of a simulated cluster: closed forms of copies and writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/device/sim/sim_storage.h"
#include "core/sim/world.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::sim {
namespace {

using testing::complaint;
using testing::small_cluster;

ClusterSpec with_storage(std::int64_t machines, double gbs, double shared_gbs) {
  ClusterSpec cluster = small_cluster(2);
  cluster.machines = machines;
  cluster.storage = {.gbs = gbs, .shared_gbs = shared_gbs};
  return cluster;
}

/// The time until writers that begin together have written their bytes, each from its machine.
double seconds_to_write(const ClusterSpec& cluster,
                        const std::vector<std::pair<int, double>>& writers) {
  const auto world = make_world(cluster);
  double longest = 0;
  for (const auto& [machine, bytes] : writers)
    world->spawn("writer", {machine, -1}, [&, machine, bytes] {
      world->start_storage(machine, bytes)->wait();
      longest = std::max(longest, world->now());
    });
  world->run();
  return longest;
}

TEST(Storage, IsSharedByTheRanksOfAMachineAndByAllMachines) {
  EXPECT_NEAR(seconds_to_write(with_storage(1, 2, 0), {{0, 3e9}}), 1.5, 1e-9);
  EXPECT_NEAR(seconds_to_write(with_storage(1, 2, 0), {{0, 3e9}, {0, 3e9}}), 3, 1e-9);
  EXPECT_NEAR(seconds_to_write(with_storage(3, 2, 0), {{0, 3e9}, {2, 3e9}}), 1.5, 1e-9);
  EXPECT_NEAR(seconds_to_write(with_storage(3, 2, 3), {{0, 3e9}, {1, 3e9}, {2, 3e9}}), 3, 1e-9);
  // 1 GB/s each until the small one is done after 1 s, then 2 GB/s are its machine's limit.
  EXPECT_NEAR(seconds_to_write(with_storage(2, 2, 2), {{0, 1e9}, {1, 3e9}}), 2, 1e-9);
}

TEST(Storage, UsesNoNetworkAndNeedsASpeed) {
  ClusterSpec cluster = with_storage(2, 2, 0);
  cluster.nic.gbs = 1e-3;
  EXPECT_NEAR(seconds_to_write(cluster, {{1, 2e9}}), 1, 1e-9);
  EXPECT_THAT(complaint([] {
                seconds_to_write(small_cluster(1), {{0, 1}});
              }),
              ::testing::HasSubstr("storage.gbs is not known"));
}

/// Runs the body as an actor on a device of the cluster, with its storage.
void on_device(const ClusterSpec& cluster, Place place,
               const std::function<void(World&, SimDevice&, VirtualStorage&)>& body) {
  const auto world = make_world(cluster);
  world->spawn("rank", place, [&] {
    const auto device = make_sim_device(cluster, world.get(), place, nullptr);
    const auto storage = make_sim_storage(*device);
    body(*world, *device, *storage);
  });
  world->run();
}

TEST(Storage, TakesACopyAndThenWritesBesideTheRank) {
  on_device(with_storage(1, 2, 0), {0, 1}, [](World& world, SimDevice& device, VirtualStorage& to) {
    EXPECT_EQ(to.wait(), 0);
    to.copy(device, 4e9);
    EXPECT_NEAR(world.now(), 4 / 8.0 + 1e-6, 1e-9) << "over PCIe";
    to.write(4e9);
    EXPECT_NEAR(world.now(), 4 / 8.0 + 1e-6, 1e-9);
    world.sleep(1.25);
    EXPECT_NEAR(to.wait(), 2, 1e-9);
    EXPECT_NEAR(world.now(), 0.5 + 1e-6 + 2, 1e-9);
    EXPECT_EQ(to.wait(), 0);
  });
}

TEST(Storage, CopiesOnAHostWithOneOfItsCores) {
  on_device(with_storage(1, 2, 0), {0, -1},
            [](World& world, SimDevice& device, VirtualStorage& to) {
              to.copy(device, 5e9);
              EXPECT_NEAR(world.now(), 2 * 5 / 100.0, 1e-9);
            });
  ClusterSpec cpus = with_storage(1, 2, 0);
  cpus.device.kind = DeviceKind::cpu;
  cpus.host.kind = DeviceKind::cpu;
  on_device(cpus, {0, 0}, [](World& world, SimDevice& device, VirtualStorage& to) {
    to.copy(device, 4e9);
    EXPECT_NEAR(world.now(), 4 / 8.0 + 1e-6, 1e-9) << "through the memory of the processor";
  });
}

}  // namespace
}  // namespace ringside::sim
