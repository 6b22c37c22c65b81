// The transport of real ranks.
#pragma once

#include <memory>

#include "ps/protocol/transport.h"

namespace ringside::ps {

/// A transport that goes through shared memory or over ZeroMQ, as its options say. All ranks of a
/// run have devices of one kind, so all take the same way when the options leave it to the
/// transport.
std::unique_ptr<Transport> host_transport();

}  // namespace ringside::ps
