// Settings of simulated runs: their checks, and their effect on the cluster.
#pragma once

#include "core/plan/run_plan.h"
#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// Throws Error for a bad value of the [sim] table or of device.efficiency, and for settings that
/// need a simulated cluster if there is none.
void check_simulated(const ExperimentConfig& config);

/// Puts what the plan's [device] and [sim] tables say in place of what the cluster file says, and
/// gives its devices the speed that the file knows of the plan's model in the precision of
/// plan.train.
/// Throws Error if sim.decode is set but the cluster does not say how fast its hosts decode, and if
/// the changed cluster cannot be. Does nothing for a plan without a cluster.
void settle_cluster(RunPlan& plan);

/// The host time that the framework of sim.framework takes in every step of the plan's scheme, in
/// microseconds.
double host_step_us(const RunPlan& plan);

}  // namespace ringside::runner
