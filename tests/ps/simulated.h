// Ranks in a simulated world.
#pragma once

#include "core/device/cost.h"
#include "core/device/sim/sim_device.h"
#include "ps/transport/sim/transport.h"
#include "tests/ps/run.h"

namespace ringside::testing {

/// Machines with one processor of four cores each; 10 GB/s within them, 1 GB/s between them.
/// Messages cost no CPU time.
inline sim::ClusterSpec cpu_machines(int machines) {
  sim::ClusterSpec cluster;
  cluster.name = "processors";
  cluster.machines = machines;
  cluster.device.name = "processor";
  cluster.device.kind = sim::DeviceKind::cpu;
  cluster.device.cores = 4;
  cluster.device.memory_gb = 4;
  cluster.device.bandwidth_gbs = 20;
  cluster.device.tflops["fp32"] = 0.1;
  for (std::size_t i = 0; i < op_classes; ++i)
    cluster.device.efficiency["fp32"][std::string(name_of(static_cast<OpClass>(i)))].points = {
        {1, 0.5}};
  cluster.host = cluster.device;
  cluster.pcie = {.gbs = 10, .latency_us = 1, .step_us = 1};
  cluster.nic = {.gbs = 1, .latency_us = 5, .step_us = 5};
  cluster.collective.kind = sim::CollectiveKind::shm;
  cluster.collective.sum.points = {{1, 1}};
  cluster.collective.copy.points = {{1, 1}};
  return cluster;
}

/// Rank r lives on machine r modulo the number of machines.
inline sim::Place place_of(const sim::ClusterSpec& cluster, int rank) {
  return {static_cast<int>(rank % cluster.machines), 0};
}

/// Runs one rank as an actor; a server colocated with the worker is another actor.
inline void simulate_rank(const RunPlan& plan, int rank, sim::World& world, Store& store,
                          bool numerics, const Make& make, const Serve& serve, RankResult& result) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  const sim::Place place = place_of(world.cluster(), rank);
  const auto device =
      sim::make_sim_device(world.cluster(), &world, place, numerics ? make_cpu_device(1) : nullptr);
  Model model = make_mlp(plan.model, *device);
  const RandomTokens data(plan.model);
  const auto seed = static_cast<std::uint64_t>(plan.train.seed);
  const Loader loader(data, *device, plan.train.global_batch, seed);
  Timeline timeline(*device);
  Shared shared;
  const RankContext context{plan,     rank,    *device, store,
                            timeline, &shared, {},      {nullptr, ps::sim_transport}};
  std::string server_error;
  bool served = self.server < 0;
  const auto ended = world.make_event();
  if (!served)
    world.spawn("server", place, [&] {
      try {
        result.server = serve(context, model, loader);
      } catch (const std::exception& error) {
        server_error = error.what();
      }
      served = true;
      ended->notify_all();
    });
  try {
    if (self.worker >= 0) {
      const auto scheme = make(context);
      result.worker = Trainer(context, model, *scheme, loader,
                              plan.train.evaluate_every > 0 ? &loader : nullptr)
                          .run([](const Progress&) {});
    }
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  while (!served) ended->wait(plan.train.timeout_s);
  if (result.error.empty()) result.error = server_error;
}

struct Simulated {
  std::vector<RankResult> ranks;
  double seconds = 0;
};

/// Does the same as run_ranks(), in a simulated world of its own.
inline Simulated simulate_ranks(const RunPlan& plan, const sim::ClusterSpec& cluster, bool numerics,
                                const Make& make, const Serve& serve) {
  const auto world = sim::make_world(cluster);
  MemoryStore store;
  Simulated out;
  out.ranks.resize(plan.ranks.size());
  for (std::size_t r = 0; r < out.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    world->spawn(fmt::format("rank {}", rank), place_of(cluster, rank), [&, r, rank] {
      simulate_rank(plan, rank, *world, store, numerics, make, serve, out.ranks[r]);
    });
  }
  world->run();
  out.seconds = world->now();
  return out;
}

}  // namespace ringside::testing
