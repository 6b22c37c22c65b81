// Ranks as actors of a simulated world, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "peer/comm/sim/communicator.h"
#include "tests/peer/ranks.h"
#include "tests/support/small_cluster.h"

namespace ringside::testing {

/// A simulated cluster in which rank r runs on device r; devices are numbered across all machines.
/// On a CPU, all ranks share the processor.
struct Simulated {
  sim::ClusterSpec cluster;
  peer::SimOptions options{};
  bool numerics = true;
  Algorithm algorithm = Algorithm::native;

  sim::Place place(int rank) const {
    const auto devices = static_cast<int>(cluster.devices);
    return {rank / devices % static_cast<int>(cluster.machines), rank % devices};
  }
};

/// The simulated world that the rank is an actor of.
inline sim::World& world_of(const Rank& rank) { return sim::sim_device(rank.device).world(); }

/// Runs `body` on the first `present` of `size` ranks. Returns the text of each rank's exception;
/// "" for a rank that threw nothing. If `end` is given, it is set to the world's time at the end.
inline std::vector<std::string> errors_of_simulated(const Simulated& simulated, int size,
                                                    const std::function<void(const Rank&)>& body,
                                                    double* end = nullptr,
                                                    int present = all_ranks) {
  MemoryStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  const auto world = sim::make_world(simulated.cluster);
  for (int r = 0; r < std::min(size, present); ++r)
    world->spawn(fmt::format("rank {}", r), simulated.place(r), [&, r] {
      try {
        const auto device = sim::make_sim_device(simulated.cluster, world.get(), simulated.place(r),
                                                 simulated.numerics ? make_cpu_device(1) : nullptr);
        const auto comm = peer::make_sim_communicator(
            *device, {"test", r, size, simulated.algorithm}, simulated.options);
        body({*device, store, r, size, *comm});
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  world->run();
  if (end) *end = world->now();
  return errors;
}

/// Does the same, and expects that no rank throws. Returns the world's time at the end.
inline double run_simulated(const Simulated& simulated, int size,
                            const std::function<void(const Rank&)>& body) {
  double end = 0;
  const auto errors = errors_of_simulated(simulated, size, body, &end);
  for (int r = 0; r < size; ++r)
    EXPECT_EQ(errors[static_cast<std::size_t>(r)], "") << "rank " << r << " of " << size;
  return end;
}

inline Simulated rings_as_messages(int devices) {
  return {small_cluster(devices), {.message_ranks = 1 << 20, .timeout_s = 60}};
}
inline Simulated rings_as_flows(int devices) {
  return {small_cluster(devices), {.message_ranks = 0, .timeout_s = 60}};
}
/// Two machines with four devices and four NICs each, so that there are several rings.
inline Simulated two_machines() {
  Simulated out = rings_as_messages(4);
  out.cluster.machines = 2;
  out.cluster.nics = 4;
  return out;
}
/// One CPU with 4 cores, which all ranks share. Each core has a memory bandwidth of 10 GB/s.
inline Simulated one_pass() {
  Simulated out{small_cluster(1), {}};
  sim::ClusterSpec& cluster = out.cluster;
  cluster.topology = sim::Topology::pcie;
  cluster.device.kind = sim::DeviceKind::cpu;
  cluster.device.cores = 4;
  cluster.device.bandwidth_gbs = 10;
  cluster.collective.kind = sim::CollectiveKind::shm;
  cluster.collective.sum.points = {{1, 0.5}};
  cluster.collective.copy.points = {{1, 0.8}};
  return out;
}

/// Two machines, on each of which so many ranks share a processor as in one_pass(). The network
/// moves 1 GB/s each way, and a step between machines takes 10 us.
inline Simulated two_hosts(int ranks_of_each) {
  Simulated out = one_pass();
  out.cluster.machines = 2;
  out.cluster.devices = ranks_of_each;
  out.cluster.nics = 1;
  out.cluster.collective.network_us_per_mb = 50;
  return out;
}

}  // namespace ringside::testing
