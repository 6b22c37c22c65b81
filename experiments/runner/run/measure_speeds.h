// The measurement of the speeds at which the workers of a run compute.
#pragma once

#include <optional>
#include <string>

#include "core/plan/measured_speeds.h"
#include "experiments/runner/run/runner.h"

namespace ringside::runner {

struct SpeedMeasurement {
  MeasuredSpeeds speeds;
  std::string disturbance;  // the cause of a disturbance; empty if there was none
};

/// Makes the run of a plan of plan_measurement(), and makes it again while other work disturbs it,
/// at most maker.most_attempts times: the attempt that was disturbed least counts. Blocks. Returns
/// nothing if the user interrupts. Throws Error if a run fails.
std::optional<SpeedMeasurement> measure_speeds(const RunPlan& plan, const RunMaker& maker);

}  // namespace ringside::runner
