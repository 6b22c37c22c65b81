// The work of one worker as a training of its own.
#pragma once

#include <string>

#include "core/plan/run_plan.h"

namespace ringside {

/// `single` with the micro-batches, the model, the data and the optimizer of a worker of `run`, in
/// one rank. Steps, seeds, evaluations and settings that concern only other ranks are left out:
/// runs whose workers do the same operations have the same lone training.
RunPlan lone_training(const RunPlan& run);

/// A name for lone_training(run), by which it is found among others: 16 hexadecimal digits.
std::string lone_training_name(const RunPlan& run);

}  // namespace ringside
