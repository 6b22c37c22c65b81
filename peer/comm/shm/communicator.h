// Communicator for ranks of one host: collectives straight out of the peers' memory.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "core/comm/store.h"
#include "core/device/device.h"

namespace ringside::peer {

/// Ranks are threads or processes of one host, and all of the group call this. Blocks until all are
/// here, at most `timeout_s`, which is also the deadline of every later wait. Device and store must
/// outlive it.
///
/// One pass: after a barrier rank r reads its part from all ranks' memory, sums in registers in
/// rank order and stores to all; a second barrier ends it (3-5x over staged copies). Steps: 2
/// barriers an operation. A thread of its own runs collectives in order, another one moves
/// messages; a caller that waits helps. A rank that does not come is named to all others, as is a
/// rank whose communicator ended; no file stays open and nothing is left behind. A group of one
/// needs none of this.
std::unique_ptr<Communicator> make_shm_communicator(Device& device, Store& store,
                                                    const Group& group, double timeout_s);

}  // namespace ringside::peer
