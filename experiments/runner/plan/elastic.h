// Plans of runs whose workers come and go.
#pragma once

#include <vector>

#include "core/plan/measured_speeds.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// Adds the plans of all worlds that a run can have (RunPlan::worlds), if [faults] least_world asks
/// for a smaller one than the plan's: from that one on, those at which the scheme can run with the
/// same global batch. Where a world does not divide the batch, the first workers get one sample
/// more than the others. In a job on several hosts the run is no elastic one (is_elastic()): its
/// world changes when it starts again without hosts that are gone. Workers that do not wait for
/// each other keep their shares, and as many may be away as that world allows. Throws Error if the
/// world of such a run cannot change.
void plan_worlds(RunPlan& plan, const ExperimentConfig& config, const SchemeInfo& row,
                 const std::vector<MeasuredSpeeds>& measured);

}  // namespace ringside::runner
