// The planner: the plans of all runs from an experiment's configuration.
#pragma once

#include <string>
#include <vector>

#include "core/plan/measured_speeds.h"
#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// Returns all runs of a comparison: first the references that other runs must equal, unless they
/// are compared themselves, then repeat 0 of every case, world and seed, then repeat 1, and so on.
/// Cases with equal plans are made once (PlannedCase). The runs are carried out in the order of
/// RunPlan::place: repeat by repeat, and in an order within each repeat that train.seed shuffles.
/// So no scheme always runs on a machine that is still cold, or always after the same other scheme.
/// Throws Error for runs that are impossible; the error names the key, its value and a valid value.
///
/// `cores` is the number of cores that this process may run on; 0 if it is not known. With
/// compare.all_cores, a comparison of `single` with others on CPUs gets one more case: `single`
/// with as many threads as a run of the largest world has in all, but at most one for each core.
/// This case shows what the same cores do without a scheme. It is left out if it would have no more
/// threads than `single` has anyway.
///
/// A rank computes its share (global_batch / world) in max(accumulation, ceil(share / micro_batch))
/// micro-batches of equal size, unless train.shares says otherwise
/// (experiments/runner/plan/shares.h). Runs on real devices with shares in proportion to speed wait
/// for their speeds where `measured` lacks them (missing_measurements() in
/// experiments/runner/plan/measurements.h), and cannot be made yet. A scheme that allows only
/// worlds up to a limit runs at those of the asked worlds; if all asked worlds are larger, it runs
/// at its limit alone.
std::vector<RunPlan> plan_comparison(const Experiment& experiment, int cores = 0,
                                     const std::vector<MeasuredSpeeds>& measured = {});

/// Plans one run, as `ringside train` carries it out. Throws Error as plan_comparison() does.
RunPlan plan_training(const ExperimentConfig& config, const std::string& scheme, int world,
                      const std::vector<MeasuredSpeeds>& measured = {});

}  // namespace ringside::runner
