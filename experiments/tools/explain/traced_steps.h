// The last steps of the workers, read from the trace of a run.
#pragma once

#include <string>
#include <vector>

#include "core/observe/timeline.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/results/read_trace.h"

namespace ringside::tools::explain {

/// A span of time on one rank, in milliseconds since the first span of the trace.
struct TraceSlice {
  Activity activity = Activity::compute;
  std::string name;
  double begin_ms = 0, end_ms = 0;
  double ms() const { return end_ms - begin_ms; }
};

/// One training step of a worker: the slices of its main thread, in the order of time. No slice
/// overlaps another: of slices within a slice the outer one is kept, and a wait within another
/// slice divides that slice.
struct TracedStep {
  double begin_ms = 0, end_ms = 0;
  std::vector<TraceSlice> main;
};

struct TracedWorker {
  int rank = 0;
  std::vector<TracedStep> steps;          // all workers have equally many, unless they run free
  std::vector<TraceSlice> communication;  // in the order of their begin
};

/// The last steps of a run's traced workers, in the order of their ranks.
struct TracedRun {
  std::vector<TracedWorker> workers;
  /// Steps of all workers together.
  std::size_t steps() const;
};

/// The mean of `figure` over workers and steps.
template <class Figure>
double mean_of_steps(const TracedRun& run, Figure figure) {
  double sum = 0;
  for (const TracedWorker& worker : run.workers)
    for (const TracedStep& step : worker.steps) sum += figure(worker, step);
  return run.steps() == 0 ? 0 : sum / static_cast<double>(run.steps());
}

/// The milliseconds of a step in slices of the main thread with this activity.
double ms_of(const TracedStep& step, Activity activity);

/// Whether the middle of a slice lies in the step. Its ends may lie a nanosecond outside, because
/// times in a trace are rounded.
bool within(double begin_ms, double end_ms, const TracedStep& step);

/// Takes the workers' steps from the trace of a run of `plan`. Spans whose category is no Activity,
/// lines of servers, and spans outside of steps are left out.
TracedRun traced_run(const runner::TracedSpans& trace, const RunPlan& plan);

}  // namespace ringside::tools::explain
