// The bounds of a cluster's speed that follow from the errors which its description states.
#pragma once

#include <string>

#include "core/sim/cluster.h"

namespace ringside::sim {

/// The two ends of an interval.
enum class Bound : std::uint8_t { fast, slow };

/// An error e of a cluster (DeviceSpec::error, CollectiveSpec::error, ClusterSpec::error) comes
/// from n measured figures that were simulated without being fitted. The worst of them is 1 + e
/// times the simulated figure, or the simulated one is 1 + e times the measured one. A new figure
/// of the same kind lies within this bound with a probability of n / (n + 1), if it and the n
/// figures are exchangeable (Vovk et al. 2005, "Algorithmic Learning in a Random World": conformal
/// prediction with the largest score).
///
/// Whether the cluster states the error of its devices in this dtype. Without it there is no
/// interval.
bool states_errors(const ClusterSpec& cluster, const std::string& dtype);

/// The cluster at one end of the interval: its devices take 1 + error times as long (slow), or are
/// faster by that factor (fast), for all operations of a step in this dtype. Collectives and
/// messages do so with an error of their own. ClusterSpec::error is not applied: it is an error of
/// the time of a whole step.
ClusterSpec at_bound(const ClusterSpec& cluster, const std::string& dtype, Bound bound);

}  // namespace ringside::sim
