// Transport through shared memory.
#pragma once

#include <memory>

#include "core/device/device.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

/// Whether tensors of the device lie where other processes of the host can map them.
bool shares_memory(Device& device);

/// A transport for ranks of one host, threads or processes of one user, whose devices all share
/// their memory (shares_memory). Headers travel through rings in a file that has no name; frames
/// are read where they lie, so a message costs the same whatever its size. They count as traffic
/// nevertheless. A worker and a server of one rank pass each other the message itself. The ranks
/// find each other through the context's store. listen() and connect() throw Error on a device that
/// does not share its memory.
std::unique_ptr<Transport> shm_transport();

}  // namespace ringside::ps
