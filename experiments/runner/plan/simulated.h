// Settings of simulated runs: their checks, and their effect on the cluster.
#pragma once

#include "core/plan/run_plan.h"
#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// Throws Error for a bad value of the [sim] table or of device.efficiency, and for settings that
/// need a simulated cluster if there is none.
void check_simulated(const ExperimentConfig& config);

/// Replaces figures of the cluster file by those of the plan's [device] and [sim] tables, leaves
/// out the speed of storage and the rate of failures where the run has no use for them, and gives
/// the devices the speed that the file has for the plan's model in the precision of plan.train.
/// Throws Error if sim.decode is set but the cluster has no speed of decoding, and if the changed
/// cluster is invalid. Does nothing for a plan without a cluster.
void settle_cluster(RunPlan& plan);

/// The host time that the framework of sim.framework takes in every step of the plan's scheme, in
/// microseconds.
double host_step_us(const RunPlan& plan);

}  // namespace ringside::runner
