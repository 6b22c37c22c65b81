// Transport over ZeroMQ.
#pragma once

#include <memory>

#include "ps/protocol/transport.h"

namespace ringside::ps {

/// A transport over ZeroMQ (channel.h). The ranks find each other through the context's store.
std::unique_ptr<Transport> zmq_transport();

}  // namespace ringside::ps
