// Measurements of workers' speeds that runs on real devices need before they can be planned.
#pragma once

#include <string>
#include <vector>

#include "core/plan/measured_speeds.h"

namespace ringside::runner {

/// Plans the run that measures the speeds for which `run` waits. All workers compute at once, on
/// the hosts of the run: they share the memory and the power of their machine. Every step begins
/// for all at the same time (they have added up their gradients before), and nothing is sent while
/// they compute.
RunPlan plan_measurement(const RunPlan& run);

/// The measurements for which some of the runs wait, each once, on the hosts of the run with the
/// most ranks. Runs that differ in their hosts alone share a measurement.
std::vector<RunPlan> missing_measurements(const std::vector<RunPlan>& runs);

/// Samples a second of each worker: of its median step. Equal devices differ in any measurement,
/// and shares that follow such noise would slow a run down for nothing. So workers whose times
/// overlap count as equally fast: those whose 10% quantile is at most the 90% quantile of the
/// worker with the smallest median; and so on with the workers that are left. (Medians alone would
/// call every difference real, and ranges would call none real after a single step that something
/// held up.)
std::vector<double> speeds_of(const MeasuredSpeeds& measured);

/// "world 2, 12 samples a worker: 812.3, 270.1 samples/s"; says which workers count as equally
/// fast.
std::string text_of(const MeasuredSpeeds& measured);

}  // namespace ringside::runner
