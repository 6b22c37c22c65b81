#include "core/plan/places.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/plan/mesh.h"
#include "core/sim/uneven.h"

namespace ringside {
namespace {

bool shares_cores(const sim::ClusterSpec& cluster) {
  return cluster.device.kind == sim::DeviceKind::cpu;
}

/// Hosts are numbered in the order of their first ranks.
sim::Place place_of_home(const RunPlan& plan, int rank) {
  std::vector<std::string> hosts;
  for (const RankHome& home : plan.homes) {
    if (std::find(hosts.begin(), hosts.end(), home.host) == hosts.end()) hosts.push_back(home.host);
    if (home.host == plan.homes[static_cast<std::size_t>(rank)].host) break;
  }
  return {static_cast<int>(hosts.size()) - 1, 0};
}

}  // namespace

std::vector<int> workers_with_servers(int colocated, int world, int group) {
  std::vector<int> workers;
  std::vector<int> counts(static_cast<std::size_t>(group));  // of servers, by the worker's part
  std::vector<bool> taken(static_cast<std::size_t>(world));
  for (std::int64_t server = 0; server < colocated; ++server) {
    const auto even = static_cast<int>(server * world / colocated);
    const int first = even / group * group;
    int best = -1;
    for (int i = 0; i < group; ++i) {  // the nearest one after the even place, of equally good ones
      const int part = (even - first + i) % group;
      if (taken[static_cast<std::size_t>(first + part)]) continue;
      if (best < 0 ||
          counts[static_cast<std::size_t>(part)] < counts[static_cast<std::size_t>(best)])
        best = part;
    }
    ++counts[static_cast<std::size_t>(best)];
    taken[static_cast<std::size_t>(first + best)] = true;
    workers.push_back(first + best);
  }
  return workers;
}

sim::Place place_of_worker(const sim::ClusterSpec& cluster, int worker) {
  const auto devices = static_cast<int>(cluster.devices);
  const int device = worker % (static_cast<int>(cluster.machines) * devices);
  return {device / devices, device % devices};
}

sim::Place place_of_worker(const RunPlan& plan, int worker) {
  return place_of_worker(*plan.cluster, rank_in_whole(plan, worker));  // rank i is worker i
}

int machines_of_workers(const RunPlan& plan) {
  if (!plan.homes.empty()) {
    std::set<std::string> hosts;
    for (int worker = 0; worker < plan.world; ++worker)
      hosts.insert(plan.homes[static_cast<std::size_t>(worker)].host);
    return static_cast<int>(hosts.size());
  }
  const std::int64_t devices = plan.cluster->devices;
  return static_cast<int>(std::min(plan.cluster->machines, (plan.world + devices - 1) / devices));
}

sim::Place place_of(const RunPlan& plan, int rank) {
  const sim::ClusterSpec& cluster = *plan.cluster;
  if (!plan.homes.empty()) return place_of_home(plan, rank);
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  if (self.worker < 0) {
    const int first = plan.sim.servers_apart ? machines_of_workers(plan) : 0;
    const int machines = static_cast<int>(cluster.machines) - first;
    const int dedicated = rank - plan.world;  // ranks of workers come first
    // If a machine's devices are its own processors, the server needs no other place: it shares
    // device 0.
    return {first + dedicated % machines, shares_cores(cluster) ? 0 : -1};
  }
  return place_of_worker(plan, self.worker);
}

void check_places(const RunPlan& plan) {
  const sim::ClusterSpec& cluster = *plan.cluster;
  const std::int64_t devices = cluster.machines * cluster.devices;
  if (!shares_cores(cluster) && plan.world > devices)
    throw Error(
        "world {} needs {} devices, and cluster {} has {}; choose a larger cluster or a smaller "
        "world",
        plan.world, plan.world, cluster.name, devices);
  const auto ranks = static_cast<int>(plan.ranks.size());
  if (plan.sim.servers_apart && ranks > plan.world && machines_of_workers(plan) == cluster.machines)
    throw Error(
        "sim.servers_apart: all {} machines of cluster {} have workers; choose a larger cluster or "
        "a smaller world",
        cluster.machines, cluster.name);
}

std::string products_dtype(const RunPlan& plan) {
  const bool tf32 = plan.device.tf32 && parameter_dtype(plan.train) == DType::f32;
  return std::string(tf32 ? "tf32" : name_of(plan.train.precision));
}

void check_products(const RunPlan& plan) {
  const std::string dtype = products_dtype(plan);
  for (int worker = 0; worker < plan.world; ++worker) {
    const sim::DeviceSpec& device =
        device_of(*plan.cluster, place_of_worker(*plan.cluster, worker).machine);
    if (device.tflops.contains(dtype)) continue;
    std::vector<std::string_view> known;
    for (const auto& [name, rate] : device.tflops) known.push_back(name);
    throw Error(
        "{}: cluster {} gives no tflops.{} for its device {}; the dtypes with tflops are {}",
        dtype == "tf32" ? "device.tf32 = true" : fmt::format("train.precision = '{}'", dtype),
        plan.cluster->name, dtype, device.name, fmt::join(known, ", "));
  }
}

}  // namespace ringside
