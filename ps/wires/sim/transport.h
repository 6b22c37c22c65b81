// Transport of simulated ranks.
#pragma once

#include <memory>

#include "ps/protocol/transport.h"

namespace ringside::ps {

/// Moves messages in the world of the rank's simulated device (core/sim/world.h), where the ranks
/// also find each other. A message takes CPU time of the sender and of the receiver as the cluster
/// says (between GPUs of one machine: the launch of a copy); each rank has one I/O thread for
/// sending and one for receiving, and each handles one message after the other. The message's bytes
/// occupy the links between the two ranks. Within a rank a message is free.
std::unique_ptr<Transport> sim_transport();

}  // namespace ringside::ps
