// The run of a scheme's definition.
#pragma once

#include "core/plan/run_plan.h"

namespace ringside {

/// The plan of one rank that represents all workers of the run and computes the definition of the
/// run's scheme; id, label and settings are still those of the run. A simulated rank has the memory
/// of all workers, whose replicas or gradients it holds. Another program runs it only if that
/// program brings the definition (DefinedBy::program).
RunPlan definition_of(const RunPlan& run);

/// The same for a run whose definition replays its history (Promise::replayed).
RunPlan replay_of(const RunPlan& run, std::vector<ChunkHistory> history,
                  std::vector<std::int64_t> lost = {});

}  // namespace ringside
