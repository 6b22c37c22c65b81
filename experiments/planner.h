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

/// The order in which a run adds up the gradients of a step: `micro_batches` for each of `groups`,
/// then the groups. Runs of one experiment with equal trees must end with equal bits; a tree with
/// one group, or one micro-batch a group, is a plain sequence: {1, all}. Micro-batches whose batch
/// norms look at each other count as the one that they equal, to rounding. A learning rate that
/// depends on the ranks tells runs apart as well. Throws Error for a scaling that there is not.
struct SumTree {
  std::int64_t groups = 1;
  std::int64_t micro_batches = 1;
  double lr = 0;  // scaled to the ranks
  bool operator==(const SumTree&) const = default;
};
SumTree sum_tree(const RunPlan& plan);

/// How a table calls the run's scheme: "ddp", or "single x2" for the reference of two ranks.
std::string label_of(const RunPlan& plan);

/// Whether the run was not asked for: made once, so that others have something to equal.
bool only_reference(const RunPlan& plan);

/// Whether the run is a repeat of the same thing.
bool same_case(const RunPlan& a, const RunPlan& b);

/// Makes the device, the model and the data of the plan once, here, and drops them: so that a
/// shape that cannot be or a missing file is one line and not a failed run. Throws Error.
void check_inputs(const RunPlan& plan);

}  // namespace ringside
