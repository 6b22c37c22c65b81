// Collectives between simulated ranks by a chosen algorithm.
#pragma once

#include <memory>

#include "peer/comm/sim/group.h"

namespace ringside::peer {

/// Starts the services of a group with an algorithm of messages. In a small group every rank runs
/// the algorithm's program, and each message is simulated with its values. In a large group all
/// bytes of equal rounds move as one flow from each sender to each receiver, after the latencies of
/// these rounds. Throws Error if the group's ranks cannot use the algorithm.
void serve_algorithm(const std::shared_ptr<SimGroup>& group);

}  // namespace ringside::peer
