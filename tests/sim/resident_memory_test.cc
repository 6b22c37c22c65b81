#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/sim/world.h"

namespace ringside::sim {
namespace {

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// A stack takes only the memory that its actor uses. The memory of routes grows with the number of
// machines, not with its square.
TEST(World, AThousandRanksTakeTensOfMegabytes) {
  ClusterSpec cluster;
  cluster.machines = 128;
  cluster.devices = 8;
  cluster.host.kind = sim::DeviceKind::cpu;
  cluster.topology = Topology::nvlink_switch;
  cluster.peer.gbs = cluster.pcie.gbs = cluster.nic.gbs = 10;
  cluster.nics = 8;
  cluster.machines_per_switch = 16;
  require_simgrid();  // loads SimGrid now, so that its own memory is not counted below
  const double before = resident_mb();
  const auto world = make_world(cluster);
  EXPECT_LT(resident_mb() - before, 20);
  double most = 0;
  for (int machine = 0; machine < 128; ++machine)
    for (int device = 0; device < 8; ++device)
      world->spawn("rank", {machine, device}, [&, machine, device] {
        world->start_flow({machine, device}, {(machine + 1) % 128, device}, 1e9)->wait();
        most = std::max(most, resident_mb());
      });
  world->run();
  EXPECT_GT(most, before);
  EXPECT_LT(most - before, 60);
}

}  // namespace
}  // namespace ringside::sim
