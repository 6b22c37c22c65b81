// From what was asked for to the runs that answer it.
#pragma once

#include <string>
#include <vector>

#include "experiments/config.h"

namespace ringside {

/// All runs of a comparison, in the order in which they are made: first the references that are
/// missing, then repeat 0 of every scheme and world, repeat 1 of every one, ... Throws Error for
/// whatever cannot be run: it names the key, its value and what would do.
///
/// A rank computes its share (global_batch / world) in
/// max(accumulation, ceil(share / micro_batch)) micro-batches of equal size. Schemes with a
/// largest world run at the worlds up to it, or at that one alone.
std::vector<RunPlan> plan_comparison(const ExperimentConfig& config);

/// One run, as `ringside train` makes it. Throws Error as above.
RunPlan plan_training(const ExperimentConfig& config, const std::string& scheme, int world);

/// Makes the device, the model and the data of the plan once, here, and drops them: so that a
/// shape that cannot be or a missing file is one line and not a failed run. Throws Error.
void check_inputs(const RunPlan& plan);

}  // namespace ringside
