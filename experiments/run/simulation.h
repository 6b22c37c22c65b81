// All ranks of a run in a simulated cluster.
#pragma once

#include <functional>
#include <vector>

#include "core/observe/record.h"
#include "core/plan/run_plan.h"
#include "core/train/trainer.h"

namespace ringside {

/// Runs the ranks of a plan with a cluster as actors of one world, in this thread; blocks until
/// they have ended. Records by rank, with virtual times. `progress` hears of every worker's steps.
/// Throws the first error of a rank, with its number.
std::vector<RankRecord> simulate(const RunPlan& plan,
                                 const std::function<void(const Progress&)>& progress);

}  // namespace ringside
