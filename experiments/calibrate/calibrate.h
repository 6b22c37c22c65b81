// Measures this machine for predictions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/device/cost.h"
#include "core/sim/cluster.h"

namespace ringside {

/// A cluster of one machine: this one, with ranks of `threads` threads as processes on its cores.
/// Takes about half a minute with both hands full: nothing else should run. `told` hears what is
/// being measured. Throws Error where something cannot be measured.
sim::ClusterSpec calibrate(std::int64_t threads,
                           const std::function<void(const std::string&)>& told);

/// What the cluster of a calibration is called: it holds for no other machine or threads.
std::string calibration_name(std::int64_t threads);

// ---- its parts

/// Peak, bandwidth, launch cost and efficiencies of the CPU device, by operation, where they run:
/// within training steps of small models.
void measure_device(sim::DeviceSpec& device, std::int64_t threads);

/// Collectives between processes through shared memory.
void measure_collectives(sim::ClusterSpec& cluster, std::int64_t threads);

/// Messages between a worker and a server over ZeroMQ.
void measure_messages(sim::ClusterSpec& cluster, std::int64_t threads);

}  // namespace ringside
