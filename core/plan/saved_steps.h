// The steps after which a run's state is kept.
#pragma once

#include <cstdint>

#include "core/plan/run_plan.h"

namespace ringside {

/// Whether the run writes checkpoints: a real one if it has a folder for them, a simulated one,
/// which writes no files, if checkpoint.every is above 0.
bool writes_checkpoints(const RunPlan& plan);

/// Whether the state after `done` steps is such a checkpoint, and whether an elastic run copies it
/// to the host's memory.
bool saved_after(const RunPlan& plan, std::int64_t done);
bool copied_after(const RunPlan& plan, std::int64_t done);

}  // namespace ringside
