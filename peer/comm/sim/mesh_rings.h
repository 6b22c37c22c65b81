// Rings over the links of a mesh.
#pragma once

#include <vector>

#include "core/sim/world.h"

namespace ringside::peer {

/// The rings that NCCL uses through the devices of one machine in a mesh (sim::Topology::mesh): as
/// many as the links allow if no two rings share a direction of a link. places[r] is the place of
/// rank r. Each ring holds all ranks in its order. With three or more ranks rings come in pairs,
/// one for each direction. None if the links make no ring through all places, if two ranks share a
/// place, or if the places are not in a mesh.
///
/// The search ends at the number of rings that the device with the fewest links allows, which it
/// reaches for a DGX-1. After a million hops it ends with the most rings found so far.
std::vector<std::vector<int>> rings_in_mesh(const sim::ClusterSpec& cluster,
                                            const std::vector<sim::Place>& places);

}  // namespace ringside::peer
