// How long the links of a simulated cluster are busy with flows.
#pragma once

#include <vector>

#include "core/sim/world.h"

namespace ringside::peer {

/// A flow of bytes between two places, at the same time as other flows. It moves `share` times the
/// bytes of one hop of one ring; the share is above 1 if hops of several rings are merged.
struct RingFlow {
  sim::Place from, to;
  double latency = 0;  // of the route
  double share = 1;
};

/// The seconds for which the busiest link is busy, when every flow moves its share of one byte. The
/// links are the same as in the simulated world.
double busiest_link_seconds(const sim::ClusterSpec& cluster, const std::vector<RingFlow>& flows);

}  // namespace ringside::peer
