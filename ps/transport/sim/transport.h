// Transport of simulated ranks.
#pragma once

#include <memory>

#include "core/sim/world.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

/// Moves messages in the world of the rank's simulated device (core/sim/world.h), where the ranks
/// also find each other. The cluster's description says how much CPU time a message takes on the
/// sender and on the receiver (between GPUs of one machine: the time to launch a copy). Each rank
/// has one I/O thread for sending and one for receiving, and each handles one message after the
/// other. The message's bytes occupy the links between the two ranks. Where real ranks would use
/// shared memory (CPUs of one machine, unless the options ask for ipc or tcp), there are no I/O
/// threads: the ends themselves spend the CPU time, and nothing moves but a header, since values
/// are read where they lie. Within a rank a message is free.
std::unique_ptr<Transport> sim_transport();

/// The process of this rank has been killed: nothing that it does from now on reaches its peers,
/// which find its connections closed, as those of a real process.
void cut_simulated(sim::World& world, int rank);

}  // namespace ringside::ps
