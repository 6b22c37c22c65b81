// The connection between two places of a simulated cluster.
#pragma once

#include <cstdint>

#include "core/sim/world.h"
#include "peer/comm/sim/tuning.h"

namespace ringside::peer {

inline bool has_device(sim::Place place) { return place.device >= 0; }

/// The NIC that a place uses, among those of its machine.
int nic_of(const sim::ClusterSpec& cluster, sim::Place place);

/// The number of links that directly join two devices of a mesh; 0 in other topologies.
std::int64_t links_between(const sim::ClusterSpec& cluster, sim::Place a, sim::Place b);

/// Seconds in which a core of a place reads and writes `bytes` together, while it sums or copies
/// them as the ranks of a CPU do (CollectiveKind::shm).
double seconds_in_memory(const sim::ClusterSpec& cluster, sim::Place place, double bytes,
                         bool sums);

/// The link whose curve by size (LinkSpec::by_mb) collectives of a group follow: the NIC if its
/// ranks are on several machines, else the link between devices.
const sim::LinkSpec& link_of_group(const sim::ClusterSpec& cluster, bool several_machines);

/// Seconds that a step of a collective between two places takes besides moving bytes: step_us of
/// the link between them, as it is for the row, or the latency of the route if that is larger.
double step_seconds(sim::World& world, sim::Place from, sim::Place to,
                    const TuningRow& row = tuning_rows().front());

}  // namespace ringside::peer
