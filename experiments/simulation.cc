#include "experiments/simulation.h"

#include <fmt/ranges.h>

#include <optional>

#include "core/base/error.h"
#include "core/sim/world.h"
#include "experiments/rank.h"

namespace ringside {
namespace {

bool shares_cores(const sim::ClusterSpec& cluster) { return cluster.device.kind == "cpu"; }

/// The error that came first explains the others, whichever actor of a rank it ended.
using FirstError = std::optional<std::string>;

RankRecord simulate_rank(const RunPlan& plan, int rank, const RankSite& site,
                         const std::function<void(const Progress&)>& progress, FirstError& first) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  const auto hear = [&](const std::string& error) {
    if (!first) first = fmt::format("rank {} ({}): {}", rank, self.role(), error);
  };
  try {
    RankRecord record = run_rank(plan, rank, site, {progress, hear});
    record.host = fmt::format("machine {}", place_of(plan, rank).machine);
    if (rank >= plan.sim.traced_ranks) record.slices.clear();
    return record;
  } catch (const Error& error) {
    hear(error.what());  // what failed before there was anything to train
    throw;
  }
}

}  // namespace

sim::Place place_of(const RunPlan& plan, int rank) {
  const sim::ClusterSpec& cluster = *plan.cluster;
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  const auto machines = static_cast<int>(cluster.machines);
  const auto devices = static_cast<int>(cluster.devices);
  if (self.worker < 0) {
    // A machine whose devices are its processors has no other.
    return {self.server % machines, shares_cores(cluster) ? 0 : -1};
  }
  const int device = self.worker % (machines * devices);
  return {device / devices, device % devices};
}

void check_places(const RunPlan& plan) {
  const sim::ClusterSpec& cluster = *plan.cluster;
  const std::int64_t devices = cluster.machines * cluster.devices;
  if (!shares_cores(cluster) && plan.world > devices)
    throw Error(
        "world {} needs {} devices, and cluster {} has {}; name a larger one, or a smaller "
        "world",
        plan.world, plan.world, cluster.name, devices);
}

void check_products(const RunPlan& plan) {
  const auto& tflops = plan.cluster->device.tflops;
  const bool tf32 = plan.device.tf32 && parameter_dtype(plan.train) == DType::f32;
  const std::string dtype = tf32 ? "tf32" : plan.train.precision;
  if (tflops.contains(dtype)) return;
  std::vector<std::string_view> known;
  for (const auto& [name, rate] : tflops) known.push_back(name);
  throw Error("{}: device {} of cluster {} has no tflops.{}; it computes in {}",
              tf32 ? "device.tf32 = true" : fmt::format("train.precision = '{}'", dtype),
              plan.cluster->device.name, plan.cluster->name, dtype, fmt::join(known, ", "));
}

std::vector<RankRecord> simulate(const RunPlan& plan,
                                 const std::function<void(const Progress&)>& progress) {
  const auto world = sim::make_world(*plan.cluster);
  MemoryStore store;
  FirstError first;
  std::vector<RankRecord> records(plan.ranks.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    world->spawn(fmt::format("rank {}", r), place_of(plan, rank), [&, r, rank] {
      records[r] = simulate_rank(plan, rank, {store, world.get()}, progress, first);
    });
  }
  try {
    world->run();
  } catch (const Error&) {
    if (!first) throw;
  }
  if (first) throw Error("{}", *first);
  return records;
}

}  // namespace ringside
