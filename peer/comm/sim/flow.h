// Flows of collectives: bytes that move between pairs of places at the same time.
#pragma once

#include <vector>

#include "core/sim/world.h"

namespace ringside::peer {

/// A flow of bytes between two places, at the same time as other flows. It moves `share` times the
/// bytes that a channel moves over one hop; the share is above 1 if hops of several channels are
/// merged.
struct Flow {
  sim::Place from, to;
  double latency = 0;  // of the route
  double share = 1;
};

Flow flow_between(sim::World& world, sim::Place from, sim::Place to, double share = 1);

/// Merges flows with the same two ends. Returns flows of long latency first, because they are
/// started first.
std::vector<Flow> merged(std::vector<Flow> flows);

/// The seconds in which every flow moves its share of one byte, all at the same time and without
/// other traffic: the longest time that one of the cluster's links is busy.
double flow_seconds_per_byte(const sim::ClusterSpec& cluster, const std::vector<Flow>& flows);

/// Moves `bytes` times its share in each flow, and blocks until all have arrived. All bytes begin
/// to move `latency` seconds from now.
void move_flows(sim::World& world, double latency, const std::vector<Flow>& flows, double bytes);

}  // namespace ringside::peer
