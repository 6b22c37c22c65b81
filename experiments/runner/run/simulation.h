// The simulation of all ranks of a plan.
#pragma once

#include <functional>
#include <vector>

#include "core/comm/store.h"
#include "core/observe/rank_record.h"
#include "core/plan/run_plan.h"
#include "core/train/trainer.h"

namespace ringside {
struct SchemeInfo;
}

namespace ringside::runner {

/// Simulates a plan that has a cluster: its ranks are actors of one world, which runs in this
/// thread. Blocks until the ranks have ended. Returns the records by rank, with virtual times.
/// `progress` is called for every step of every worker. Throws the first error of a rank, with the
/// rank's number; groups that break leave their records in `store`, if given. `row` is as in
/// run_rank().
std::vector<RankRecord> simulate(const RunPlan& plan,
                                 const std::function<void(const Progress&)>& progress,
                                 const SchemeInfo* row = nullptr, Store* store = nullptr);

}  // namespace ringside::runner
