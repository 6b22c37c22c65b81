// From what was asked for to the runs that answer it.
#pragma once

#include <string>
#include <vector>

#include "experiments/config/config.h"

namespace ringside {

/// All runs of a comparison: the references that are missing, then repeat 0 of every scheme and
/// world, repeat 1 of every one, ... They are made in the order of RunPlan::place: repeat by
/// repeat, and within a repeat shuffled by train.seed, so that no scheme always runs on a machine
/// that is still cold, or after the same other one. Throws Error for whatever cannot be run: it
/// names the key, its value and what would do.
///
/// `cores`: how many this process may run on; 0 if that is not known. On CPUs, where the runs of
/// the largest world have more threads than `single`, a case of `single` with as many threads (at
/// most one a core) tells what the same cores do without a scheme.
///
/// A rank computes its share (global_batch / world) in
/// max(accumulation, ceil(share / micro_batch)) micro-batches of equal size. Schemes with a
/// largest world run at the worlds up to it, or at that one alone.
std::vector<RunPlan> plan_comparison(const ExperimentConfig& config, int cores = 0);

/// One run, as `ringside train` makes it. Throws Error as above.
RunPlan plan_training(const ExperimentConfig& config, const std::string& scheme, int world);

/// Makes the device, the model and the data of the plan once, here, and drops them: so that a
/// shape that cannot be or a missing file is one line and not a failed run. Throws Error.
void check_inputs(const RunPlan& plan);

}  // namespace ringside
