// Communicator for ranks of one host: collectives read straight from the peers' memory.
#pragma once

#include <memory>

#include "core/base/interruption.h"
#include "core/comm/communicator.h"
#include "core/comm/store.h"
#include "core/device/device.h"

namespace ringside::peer {

/// For ranks that are threads or processes of one host; all ranks of the group call this function.
/// Blocks until all have called, at most `timeout_s`, which is also the deadline of every later
/// wait. The device and the store must outlive the communicator.
///
/// A collective is one pass between two barriers. In an all_reduce rank r reads its part from the
/// memory of all ranks, sums it in registers in rank order and stores the result to all ranks (3-5
/// times as fast as staged copies). One thread of the communicator runs collectives in order,
/// another moves messages; a caller that waits takes part in their work. A group with an algorithm
/// of messages moves values by messages instead; each costs its receiver one pass over the bytes.
/// If a rank does not come in time, or its communicator has ended, the other ranks throw an Error
/// that names it. No file stays open, and nothing is left behind. A group of one rank gets a local
/// communicator (peer/comm/local.h).
/// `interruption` (may be null) ends every wait of this rank.
std::unique_ptr<Communicator> make_shm_communicator(Device& device, Store& store,
                                                    const Group& group, double timeout_s,
                                                    Interruption* interruption = nullptr);

}  // namespace ringside::peer
