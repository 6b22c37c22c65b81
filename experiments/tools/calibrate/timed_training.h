// Timing of the operations within training steps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/timed_device.h"
#include "core/plan/run_plan.h"

namespace ringside::tools::calibrate {

/// Trains the plan's model for a few steps by `single`, on this thread, which computes with
/// `threads` threads. Returns the operations of a step in order, each with the medians of its
/// times. Blocks. Throws Error if the model cannot be trained.
std::vector<TimedOp> time_training(const RunPlan& plan, std::int64_t threads);

}  // namespace ringside::tools::calibrate
