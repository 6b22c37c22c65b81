// One rank of a run, from its plan to its record.
#pragma once

#include <functional>

#include "core/cluster/plan.h"
#include "core/cluster/store.h"
#include "core/trainer.h"

namespace ringside {

/// Builds what the plan names (device, data, model, scheme), trains or serves, and returns what
/// happened. Blocks. The same code runs a rank as a thread and as a process. Throws Error.
RankRecord run_rank(const RunPlan& plan, int rank, Store& store,
                    const std::function<void(const Progress&)>& progress);

/// All ranks of a plan as threads of this process, for tests: records by rank. Throws the first
/// rank's Error, with its rank.
std::vector<RankRecord> run_ranks_as_threads(const RunPlan& plan);

}  // namespace ringside
