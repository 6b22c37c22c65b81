// Measurements of workers' speeds that runs on real devices need before they can be planned.
#pragma once

#include <string>
#include <vector>

#include "core/plan/measured_speeds.h"

namespace ringside::runner {

/// Plans the run that measures the speeds for which `run` waits. All workers compute at once, on
/// the hosts of the run, because they share the memory and the power of their machine. Every step
/// begins for all at the same time, after the sum of gradients, and nothing is sent while they
/// compute.
RunPlan plan_measurement(const RunPlan& run);

/// The measurements for which some of the runs wait, each once, on the hosts of the run with the
/// most ranks. Runs that differ in their hosts alone share a measurement.
std::vector<RunPlan> missing_measurements(const std::vector<RunPlan>& runs);

/// Samples a second of each worker in its median step. Even equal devices differ in a measurement,
/// and shares that follow such noise would slow a run down. So workers whose times overlap count as
/// equally fast: those whose 10% quantile is at most the 90% quantile of the worker with the
/// smallest median; the workers that are left are grouped in the same way. (With medians alone
/// every difference would count; with ranges none would count after a single delayed step.)
std::vector<double> speeds_of(const MeasuredSpeeds& measured);

/// "world 2, 12 samples a worker: 812.3, 270.1 samples/s"; names the workers that count as equally
/// fast.
std::string text_of(const MeasuredSpeeds& measured);

}  // namespace ringside::runner
