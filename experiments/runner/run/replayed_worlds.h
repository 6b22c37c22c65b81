// The definition of an elastic run: one rank that computes what each of its worlds did.
#pragma once

#include <functional>
#include <optional>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// Makes an elastic run again on one rank: for every stretch with one world (RunRecord::worlds) the
/// definition of the run at that world goes on from where the stretch before ended. The state goes
/// through checkpoints in a folder for temporary files, which is removed. `make` makes one run; it
/// returns nothing if it was interrupted, and so does this function.
std::optional<Replay> replay_worlds(
    const RunRecord& row, const std::function<std::optional<RunRecord>(const RunPlan&)>& make);

}  // namespace ringside::runner
