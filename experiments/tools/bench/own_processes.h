// Ranks of `ringside bench` as processes of this program.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/launch/launch.h"
#include "experiments/tools/bench/rank_group.h"

namespace ringside::tools::bench {

/// One process: its name in errors, if it is not "rank 0" and so on, and what it is told to be.
struct OwnProcess {
  nlohmann::json work{};  // see be_bench_rank()
  std::string name{};
  std::vector<std::string> environment{};  // as RankPlan::environment
  std::vector<int> files{};                // open files that it has too, under the same numbers
};

/// Starts the processes, and blocks until all are ready. `program` is this program, started as
/// be_bench_rank(). Ranks wait for each other `timeout_s` seconds, for which `patience` has to be
/// longer, since they know who is missing. The processes die with this one. Throws Error.
std::unique_ptr<RankGroup> start_ranks(const std::string& name, const RankProgram& program,
                                       const std::vector<OwnProcess>& processes, double timeout_s,
                                       Patience patience);

/// Is one of them, until the bench is over. The bench first tells it one of
/// {"comm": {"device", "algorithms"}}: make_own_rank(), on a core of its own,
/// {"ps": {"workers", "servers", "placement", "threads", "partition_bytes", "keys"}}: PsRank, and
/// {"bounds": {"tcp", "unix"}}: make_bound_rank(), on a core of its own, with numbers of sockets.
/// Errors go to the bench; returns whether there was none.
bool be_bench_rank(LauncherLink& link);

}  // namespace ringside::tools::bench
