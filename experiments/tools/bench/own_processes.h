// Ranks of `ringside bench` as processes of this program.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/launch/launch.h"
#include "core/plan/device_config.h"
#include "experiments/tools/bench/rank_group.h"

namespace ringside::tools::bench {

/// One process: its name in errors, if it is not "rank 0" and so on, and what it is told to be.
struct OwnProcess {
  nlohmann::json work{};  // see be_bench_rank()
  std::string name{};
  std::vector<int> files{};  // open files that it has too, under the same numbers
};

/// The plan of a bench (Purpose::bench) with `ranks` ranks on this host, each with a device of this
/// kind; they take its devices in turn. Ranks wait for each other `timeout_s` seconds. Throws Error
/// that says what is missing for such devices.
RunPlan plan_of_ranks(const DeviceConfig& device, int ranks, double timeout_s);

/// Starts one process for each rank of the plan, and blocks until all are ready. `program` is this
/// program, started as a rank. `patience` has to be longer than that of the plan's ranks, since
/// they know who is missing. The processes die with this one. Throws Error.
std::unique_ptr<RankGroup> start_ranks(const std::string& name, const RankProgram& program,
                                       const RunPlan& plan,
                                       const std::vector<OwnProcess>& processes, Patience patience);

/// Is a rank of a bench, until the bench is over. The bench first tells it one of
/// {"comm": {"algorithms"}}: make_own_rank(), on a core of its own,
/// {"ps": {"workers", "servers", "placement", "threads", "partition_bytes", "keys"}}: PsRank, and
/// {"bounds": {"tcp", "unix"}}: make_bound_rank(), on a core of its own, with numbers of sockets.
/// Errors go to the bench; returns whether there was none.
bool be_bench_rank(LauncherLink& link);

}  // namespace ringside::tools::bench
