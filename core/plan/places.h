// The places of a run's ranks: colocated servers, and simulated ranks in their cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/sim/world.h"

namespace ringside {

/// The workers that have servers 0 to `colocated` - 1 in their processes; no worker has two. They
/// are evenly spaced, because neighbours live on one machine, where they share a NIC. Where `group`
/// consecutive workers push as one, each worker of a group pushes another part of the model. A
/// server then moves within its group, so that the numbers of servers on the workers of two parts
/// differ by at most one.
std::vector<int> workers_with_servers(int colocated, int world, int group);

/// The place of a rank of a simulated run. Worker w is on device w, counted machine by machine. If
/// the devices are CPUs, there may be more workers than devices: after the last device the count
/// begins at the first device again. Dedicated servers are spread over the machines in turn, or,
/// with SimConfig::servers_apart, over those without workers; they are on the machine's host, or on
/// its device 0 if the devices are CPUs. If the plan predicts a run on real CPUs (RunPlan::homes),
/// each host of that run is a machine.
sim::Place place_of(const RunPlan& plan, int rank);
/// The place of worker `worker` in any run on the cluster.
sim::Place place_of_worker(const sim::ClusterSpec& cluster, int worker);
/// The place of a worker of the plan, which may be that of one stage's workers
/// (RunPlan::ranks_of_whole).
sim::Place place_of_worker(const RunPlan& plan, int worker);
/// The number of machines of a simulated run, from the first one on, that have workers.
int machines_of_workers(const RunPlan& plan);

/// Throws Error if the plan has more workers than its cluster has devices, unless the devices are
/// CPUs, and if dedicated servers should have machines of their own but there are none.
void check_places(const RunPlan& plan);
/// The dtype of DeviceSpec::tflops in which the plan's products are computed: "tf32" or the name of
/// its precision.
std::string products_dtype(const RunPlan& plan);
/// Throws Error if a device on which a worker lives cannot compute products in the plan's
/// precision.
void check_products(const RunPlan& plan);

}  // namespace ringside
