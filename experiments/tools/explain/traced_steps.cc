#include "experiments/tools/explain/traced_steps.h"

#include <algorithm>
#include <utility>

namespace ringside::tools::explain {
namespace {

TraceSlice slice_of(const runner::TracedSpan& span, Activity activity) {
  return {activity, span.name, static_cast<double>(span.begin_ns) / 1e6,
          static_cast<double>(span.end_ns) / 1e6};
}

void sort_by_begin(std::vector<TraceSlice>& slices) {
  // Of slices that begin together the longest comes first, because it holds the others.
  std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
    return std::pair(a.begin_ms, -a.end_ms) < std::pair(b.begin_ms, -b.end_ms);
  });
}

/// Whether the slice is a wait within the last slice of `out`. If so, the wait divides that slice,
/// because a worker that waits does nothing else.
bool divides(const TraceSlice& slice, std::vector<TraceSlice>& out) {
  constexpr auto exposed = Activity::exposed;
  if (out.empty() || slice.activity != exposed || out.back().activity == exposed) return false;
  TraceSlice rest = out.back(), wait = slice;
  wait.begin_ms = std::max(wait.begin_ms, rest.begin_ms);
  if (wait.begin_ms >= rest.end_ms) return false;
  wait.end_ms = std::min(wait.end_ms, rest.end_ms);
  if (wait.end_ms <= wait.begin_ms) return true;
  out.back().end_ms = wait.begin_ms;
  if (out.back().ms() <= 0) out.pop_back();
  rest.begin_ms = wait.end_ms;
  out.push_back(std::move(wait));
  if (rest.ms() > 0) out.push_back(std::move(rest));
  return true;
}

/// Leaves out slices within slices, but for waits, and cuts what overlaps.
void flatten(std::vector<TraceSlice>& slices) {
  sort_by_begin(slices);
  std::vector<TraceSlice> out;
  double covered_to = -1;
  for (TraceSlice& slice : slices) {
    if (divides(slice, out)) continue;
    slice.begin_ms = std::max(slice.begin_ms, covered_to);
    if (slice.end_ms <= slice.begin_ms) continue;
    covered_to = slice.end_ms;
    out.push_back(std::move(slice));
  }
  slices = std::move(out);
}

TracedWorker worker_of(int rank, const std::vector<runner::TracedSpan>& spans) {
  TracedWorker out{rank, {}, {}};
  std::vector<TraceSlice> main;
  for (const runner::TracedSpan& span : spans) {
    if (span.line == "serving") continue;  // of a server colocated with the worker
    if (span.category == "step") {
      const TraceSlice step = slice_of(span, {});
      out.steps.push_back({step.begin_ms, step.end_ms, {}});
    } else if (const auto activity = value_named<Activity>(span.category)) {
      (activity == Activity::communication ? out.communication : main)
          .push_back(slice_of(span, *activity));
    }
  }
  flatten(main);
  sort_by_begin(out.communication);
  for (TracedStep& step : out.steps)
    for (const TraceSlice& slice : main)
      if (within(slice.begin_ms, slice.end_ms, step)) step.main.push_back(slice);
  std::erase_if(out.steps, [](const TracedStep& step) { return step.main.empty(); });
  return out;
}

}  // namespace

std::size_t TracedRun::steps() const {
  std::size_t all = 0;
  for (const TracedWorker& worker : workers) all += worker.steps.size();
  return all;
}

double ms_of(const TracedStep& step, Activity activity) {
  double sum = 0;
  for (const TraceSlice& slice : step.main)
    if (slice.activity == activity) sum += slice.ms();
  return sum;
}

bool within(double begin_ms, double end_ms, const TracedStep& step) {
  const double middle_ms = (begin_ms + end_ms) / 2;
  return middle_ms >= step.begin_ms && middle_ms < step.end_ms;
}

TracedRun traced_run(const runner::TracedSpans& trace, const RunPlan& plan) {
  TracedRun out;
  for (const auto& [rank, spans] : trace) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank < 0 || at >= plan.ranks.size() || plan.ranks[at].worker < 0) continue;
    TracedWorker worker = worker_of(rank, spans);
    if (!worker.steps.empty()) out.workers.push_back(std::move(worker));
  }
  return out;
}

}  // namespace ringside::tools::explain
