// Ranks of this program as forked processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/tools/bench/rank_group.h"

namespace ringside::tools::bench {

/// The processes to fork.
struct ForkedRanks {
  std::string name;  // of the group, as for RankGroup
  int world = 1;
  std::vector<std::string> ranks{};  // the ranks' names, or none
  bool own_cores = true;             // each is bound to a core where there are enough
};

/// Forks processes, each of which runs `body`, which owns the socket to the bench, and ends when
/// `body` returns. They die with this process, which must have one thread. `body` may throw: the
/// group then gives the cause. Throws Error.
std::unique_ptr<RankGroup> fork_ranks(const ForkedRanks& forked, Patience patience,
                                      const std::function<void(int socket, int rank)>& body);

}  // namespace ringside::tools::bench
