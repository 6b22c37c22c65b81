// A few flows of a ring that represent those of all machines.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sim/world.h"
#include "peer/comm/sim/flow.h"

namespace ringside::peer {

/// In a ring through machines that are alike, each machine's flows take as long as any other's. So
/// it is enough to move those of a few machines, and a collective costs the simulation the same at
/// any number of machines. Returns, in the order of `flows`, those with an end on one of the first
/// two machines, and on one of the two machines where the ring leaves the first leaf switch; the
/// links between these carry their full load. Returns all flows if these do not represent the rest:
/// if the group has ranks on fewer than `machines` machines (ranks elsewhere may send at the same
/// time) and does not have each of its machines for itself, with `ranks_of_machine` ranks (0: not
/// known), if its machines do not have the same devices, or if the busiest link of the few is not
/// as busy as that of all. places[r] is the place of rank r.
std::vector<Flow> representatives(const sim::ClusterSpec& cluster,
                                  const std::vector<sim::Place>& places,
                                  const std::vector<Flow>& flows, std::int64_t machines,
                                  std::int64_t ranks_of_machine = 0);

}  // namespace ringside::peer
