// Ranks of this program as processes that it forks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "experiments/benchmark/rank_group.h"

namespace ringside {

/// Forks `world` processes, each of which runs `body`, which owns the socket to the bench, and ends
/// when `body` returns. Each has a core of its own where there are enough. They die with this
/// process, which must have one thread. `body` may throw: the group then gives the cause. Throws
/// Error.
std::unique_ptr<RankGroup> fork_ranks(const std::string& name, int world, Patience patience,
                                      const std::function<void(int socket, int rank)>& body);

}  // namespace ringside
