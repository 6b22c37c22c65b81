// Communicator between simulated ranks.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "core/device/sim/sim_device.h"
#include "peer/comm/sim/members.h"

namespace ringside::peer {

/// All ranks of the group call this function; they live in one world. The cluster says how an
/// operation proceeds. "nccl": rings of the devices in the order of the machines, with several
/// machines one ring for each NIC, and with NCCL's latencies (a base and one a step; tuning.cc of
/// NCCL 2). "shm": one pass between two barriers, which occupies the ranks' cores. Where devices
/// have values (numerics), sums run in rank order, as everywhere. Cost of the rings, where a is the
/// latency of a step, b the seconds a byte: all-reduce 2(p-1) a + 2(p-1)/p S b; reduce-scatter and
/// all-gather half of that; broadcast (p-1) a + S b; all-to-all (p-1) a + (p-1)/p S b.
std::unique_ptr<Communicator> make_sim_communicator(sim::SimDevice& device, const Group& group,
                                                    const SimOptions& options);

}  // namespace ringside::peer
