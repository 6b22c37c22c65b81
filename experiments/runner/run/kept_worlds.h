// The worlds that a run has had, kept beside its checkpoints for a job that goes on with it.
#pragma once

#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// Writes the worlds of a run so far to worlds.json in its folder of checkpoints, if it has one;
/// blocks until they are on the disk. Throws Error.
void keep_worlds(const RunPlan& plan, const std::vector<WorldPeriod>& worlds);

/// What keep_worlds() wrote of this very run (RunPlan::id), but for worlds that began after `step`.
/// Empty if there is nothing of the kind, at step 0, or if the run cannot have one of these worlds,
/// as after a change of faults.least_world: then it cannot be replayed at them.
std::vector<WorldPeriod> kept_worlds(const RunPlan& plan, std::int64_t step);

/// Removes what keep_worlds() wrote.
void forget_worlds(const RunPlan& plan);

}  // namespace ringside::runner
