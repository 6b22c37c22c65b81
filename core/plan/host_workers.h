// The hosts on which the workers of a run will live, as far as the planner knows them.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/hosts_config.h"
#include "core/sim/cluster.h"

namespace ringside {

/// The number of workers that each host of a job gets, by the places (`slots`) that it has for
/// them: all `world` of them if there are enough places.
std::vector<int> workers_by_slots(int world, const std::vector<int>& slots,
                                  WorkerPlacement placement);

/// The host of each of `world` workers: their machine in the simulated `cluster`, or, without one,
/// their host in the job with these slots. Without slots all workers live on one host. Workers for
/// whom the job has no place, which is refused later, count to its last host.
std::vector<int> hosts_of_workers(int world, const std::optional<sim::ClusterSpec>& cluster,
                                  const std::vector<int>& slots, WorkerPlacement placement);

/// The number of workers that follow each other on one host, host by host. A host whose workers are
/// not consecutive, as where simulated CPUs have more workers than devices, is there several times.
std::vector<int> consecutive_workers(const std::vector<int>& hosts);

/// The number of workers on each host, if hosts have equally many consecutive ones; the last may
/// have fewer. Otherwise none.
std::optional<int> workers_of_each_host(const std::vector<int>& hosts);

}  // namespace ringside
