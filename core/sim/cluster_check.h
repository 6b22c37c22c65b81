// Validation of clusters before they are simulated.
#pragma once

#include <optional>
#include <string>

#include "core/sim/cluster.h"

namespace ringside::sim {

/// The largest share of an ideal speed that a curve of an Efficiency may have.
inline constexpr double largest_efficiency = 16;

/// An error in a cluster: for instance no machines, a bandwidth of 0, an efficiency of 0, or a mesh
/// that names devices that do not exist. The names of classes of operations, such as "linear", are
/// not checked: core/device defines these.
struct ClusterProblem {
  std::string field;   // "device.memory_gb", "peer.bandwidth_gbs", "device.efficiency.fp32.linear"
  std::string reason;  // "must be more than 0, but is -3"
};

/// Returns the first problem; none if the cluster can be simulated.
std::optional<ClusterProblem> find_problem(const ClusterSpec& cluster);
/// Throws the first problem as an Error.
void check(const ClusterSpec& cluster);

}  // namespace ringside::sim
