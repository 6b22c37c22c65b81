// Bounds of push and pull on this host: the time to move one worker's bytes there and back, without
// sums and without messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/launch/local_host.h"
#include "experiments/tools/bench/rank/serve.h"
#include "experiments/tools/bench/rank_group.h"
#include "experiments/tools/bench/spin_barrier.h"

namespace ringside::tools::bench {

/// The ways of the two processes that measure bounds. For an array of S bytes:
/// copy-1, copy-2: S bytes are copied to a second array and from there to a third, by one process,
/// or by two with half of the bytes each: 2 * S bytes are read and 2 * S written;
/// tcp, unix: a process writes S bytes to a socket (127.0.0.1, a socket pair), 256 KB a call, while
/// it reads the same S bytes, which the other process sends back as they come (tcp: in whole
/// calls);
/// zmq: the same bytes over TCP there and back by ZeroMQ alone (ps/transport/zmq/round_trips.h).
const std::vector<std::string>& ps_bounds();

/// Starts the two processes; blocks until they are ready. The copied array is rewritten before
/// every call. The arguments are as for start_ranks(). Throws Error.
std::unique_ptr<RankGroup> start_bounds(const RankProgram& program, double timeout_s,
                                        Patience patience);

/// One of the two, with its ends of the connections of both.
std::unique_ptr<BenchRank> make_bound_rank(int rank, int tcp, int unix_socket, Store& store,
                                           double timeout_s);

}  // namespace ringside::tools::bench
