// The plan of one run.
#pragma once

#include "core/plan/measured_speeds.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// The options that the configuration gives the scheme, or the scheme's defaults.
const Options& options_of(const ExperimentConfig& config, const SchemeInfo& row);

/// Plans a run of the scheme, with the label that it has without a case. Shares in proportion to
/// speed follow from `measured`; where it lacks their setting, the plan waits for a measurement
/// (waits_for_speeds()). Throws Error if the run is impossible; the error names the key, its value
/// and a valid value.
RunPlan plan_run(const ExperimentConfig& config, const SchemeInfo& row, int world, int repeat,
                 const std::vector<MeasuredSpeeds>& measured = {});

}  // namespace ringside::runner
