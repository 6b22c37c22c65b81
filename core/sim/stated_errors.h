// The bounds of a cluster's speed that follow from the errors which its description states.
#pragma once

#include <string>

#include "core/sim/cluster.h"

namespace ringside::sim {

/// The two ends of an interval.
enum class Bound : std::uint8_t { fast, slow };

/// An error of a cluster (DeviceSpec::error, CollectiveSpec::error, ClusterSpec::error) is e if, of
/// all measured figures that were predicted without being fitted to, the one that was missed by
/// most is 1 + e times the simulated one, or its inverse. A new figure of the same kind is missed
/// by no more with a probability of n / (n + 1), where n figures were predicted, if they and it are
/// exchangeable (Vovk et al. 2005, "Algorithmic Learning in a Random World": conformal prediction
/// with the largest score).
///
/// Whether the cluster states the error of its devices in this dtype. Without it there is no
/// interval.
bool states_errors(const ClusterSpec& cluster, const std::string& dtype);

/// The cluster whose devices take 1 + error times as long (slow) or are as much faster (fast) for
/// all operations of a step in this dtype, as do collectives and messages with an error of their
/// own. ClusterSpec::error is not in it: that error is of the time of a whole step.
ClusterSpec at_bound(const ClusterSpec& cluster, const std::string& dtype, Bound bound);

}  // namespace ringside::sim
