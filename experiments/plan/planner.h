// Makes the plans of all runs out of an experiment's configuration.
#pragma once

#include <string>
#include <vector>

#include "experiments/config/config.h"

namespace ringside {

/// Returns all runs of a comparison: first the references that other runs must equal, unless they
/// are compared themselves, then repeat 0 of every scheme and world, then repeat 1, and so on. The
/// runs are carried out in the order of RunPlan::place: repeat by repeat, and in an order within
/// each repeat that train.seed shuffles. So no scheme always runs on a machine that is still cold,
/// or always after the same other scheme. Throws Error for whatever cannot be run; the error names
/// the key, its value and a value that would do.
///
/// `cores` is how many cores this process may run on; 0 if that is not known. With
/// compare.all_cores, a comparison of `single` with others on CPUs gets one more case: `single`
/// with as many threads as a run of the largest world has in all, but at most one for each core.
/// This case shows what the same cores do without a scheme. It is left out if it would have no more
/// threads than `single` has anyway.
///
/// A rank computes its share (global_batch / world) in max(accumulation, ceil(share / micro_batch))
/// micro-batches of equal size. A scheme that allows only worlds up to a limit runs at those of
/// compare.worlds that are within the limit; if all are larger, it runs at the limit alone.
std::vector<RunPlan> plan_comparison(const ExperimentConfig& config, int cores = 0);

/// Plans the definition of a run whose scheme has an algorithm of its own: one rank that stands for
/// all workers of the run, and must end with the bits of the run.
RunPlan plan_definition(const RunPlan& run);

/// Plans one run, as `ringside train` carries it out. Throws Error as plan_comparison() does.
RunPlan plan_training(const ExperimentConfig& config, const std::string& scheme, int world);

}  // namespace ringside
