// Communicator between simulated ranks.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "core/device/sim/sim_device.h"
#include "peer/comm/sim/members.h"

namespace ringside::peer {

/// Makes a communicator of simulated ranks. All ranks of the group call this function, and their
/// devices belong to the same world. The cluster's collective.kind chooses what is simulated:
///   - "nccl": rings that lead through the devices, machine by machine. If there are several
///     machines, there is one ring for each NIC; in a mesh there are as many as its links allow
///     (peer/comm/sim/mesh_rings.h). As in NCCL 2 (tuning.cc), an operation has a base latency, and
///     each of its steps has a latency. With CollectiveTuning::by_size there are also trees between
///     machines, and the protocol LL (peer/comm/sim/tuning.h).
///   - "shm": all ranks read and write shared memory between two barriers, each on its own core.
///     Ranks on several machines do what real ranks of several hosts do (peer/comm/sim/hosts.h).
/// If the devices hold values (sim.numerics), sums run in rank order. A group with an algorithm of
/// messages sends its messages instead; a group of more than SimOptions::message_ranks ranks moves
/// them round by round as flows (peer/comm/algorithms/schedule).
///
/// Besides the base latency and CollectiveSpec::copy_out_gbs, an operation on rings with the
/// protocol Simple takes these seconds, where p is the number of ranks, S the bytes of the whole
/// array, a the latency of a step and b the seconds for a byte:
///   - all-reduce: 2 * (p - 1) * a + 2 * (p - 1) / p * S * b
///   - reduce-scatter and all-gather: half of that
///   - broadcast: (p - 1) * a + S * b
///   - all-to-all: (p - 1) * a + (p - 1) / p * S * b
/// Where the link has a curve by size (LinkSpec::by_mb), b is divided by the share for S. Where the
/// link has a short queue, b is also divided by the share that it leaves (LinkSpec::by_queue).
std::unique_ptr<Communicator> make_sim_communicator(sim::SimDevice& device, const Group& group,
                                                    const SimOptions& options);

}  // namespace ringside::peer
