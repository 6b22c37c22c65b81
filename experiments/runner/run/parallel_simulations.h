// Simulation of several runs at the same time.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "experiments/runner/run/run.h"

namespace ringside::runner {

/// Makes simulated runs; returns their outcomes in the order of the plans. Those that have not
/// ended `seconds` after the call count as failed, with the error out_of_time. Blocks.
using Simulate =
    std::function<std::vector<RunOutcome>(const std::vector<RunPlan>&, double seconds)>;
inline constexpr std::string_view out_of_time =
    "the simulation was ended, because it took too long";

/// A maker of simulated runs, each in a process of its own, of which at most `processes` run at a
/// time. `start` is copied; its functions are called by several threads.
Simulate parallel_simulations(const RankStart& start, int processes);

}  // namespace ringside::runner
