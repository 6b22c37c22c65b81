// Measures this machine, so that a simulation can predict runs on it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/sim/cluster.h"

namespace ringside {

/// Returns a cluster of one machine: this one, whose ranks are processes of `threads` threads on
/// its cores. The call keeps the cores busy and blocks for about twenty seconds, and with `runs`
/// for one or two more for each training of theirs, so nothing else should run. Calls `told` with
/// the name of each kind of measurement before it begins. Throws Error where something cannot be
/// measured.
///
/// `runs` are to be predicted: the operations of their models are timed as they are, on as many
/// ranks at once as a run has, and other operations in the precisions of the runs alone. Without
/// runs there are figures of all precisions, from models that stand for others.
sim::ClusterSpec calibrate(std::int64_t threads, const std::vector<RunPlan>& runs,
                           const std::function<void(const std::string&)>& told);

/// The name of a calibration's cluster. It names the machine and the threads of a rank, since the
/// figures hold for these alone.
std::string calibration_name(std::int64_t threads);

// ---- the parts of calibrate()

/// Measures peak, bandwidth, launch cost and efficiencies of the CPU device. Operations are timed
/// where they usually run: within training steps of small models.
void measure_device(sim::DeviceSpec& device, const std::set<Precision>& precisions,
                    std::int64_t threads);

/// Times the operations of a training step of every run on one rank, which computes what a worker
/// of the run computes, beside as many ranks that do the same as the run has workers and the
/// machine has cores (ClusterSpec::timed).
void measure_models(sim::ClusterSpec& cluster, const std::vector<RunPlan>& runs,
                    std::int64_t threads);

/// Measures collectives between processes through shared memory.
void measure_collectives(sim::ClusterSpec& cluster, std::int64_t threads);

/// Measures messages between a worker and a server, as they travel by default: through shared
/// memory, to a receiver that sleeps.
void measure_messages(sim::ClusterSpec& cluster, std::int64_t threads);

}  // namespace ringside
