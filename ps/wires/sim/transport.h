// Transport of simulated ranks.
#pragma once

#include <memory>

#include "ps/protocol/transport.h"

namespace ringside::ps {

/// In the world of the rank's simulated device (core/sim/world.h), through which the ranks find
/// each other. A message costs the sender's and the receiver's CPU what the cluster says (between
/// GPUs of one machine the launch of a copy), one message after the other on one I/O thread a rank
/// and direction, and the links between them its bytes; within a rank it is free.
std::unique_ptr<Transport> sim_transport();

}  // namespace ringside::ps
