#include "experiments/tools/explain/evidence.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "experiments/runner/report/interval.h"
#include "experiments/runner/results/attempts.h"

namespace ringside::tools::explain {
namespace {

template <class Figure>
double median_of(const std::vector<const RunRecord*>& rows, Figure figure) {
  std::vector<double> values;
  for (const RunRecord* row : rows) values.push_back(figure(*row));
  return runner::median(std::move(values));
}

StepParts parts_of(const std::vector<const RunRecord*>& rows) {
  StepParts out;
  out.step = median_of(rows, [](const RunRecord& row) { return row.step_ms.median; });
  out.compute = median_of(rows, [](const RunRecord& row) { return row.time_ms.compute; });
  out.communication =
      median_of(rows, [](const RunRecord& row) { return row.time_ms.communication; });
  out.exposed = median_of(rows, [](const RunRecord& row) { return row.time_ms.exposed; });
  out.optimizer = median_of(rows, [](const RunRecord& row) { return row.time_ms.optimizer; });
  out.data = median_of(rows, [](const RunRecord& row) { return row.time_ms.data; });
  out.encoding = median_of(rows, [](const RunRecord& row) { return row.time_ms.encoding; });
  out.idle = median_of(rows, [](const RunRecord& row) { return row.time_ms.idle; });
  out.serving_optimizer =
      median_of(rows, [](const RunRecord& row) { return row.time_ms.serving_optimizer; });
  return out;
}

}  // namespace

double Evidence::transfer_ms(WaitFor kind) const {
  return of_exposed([&](const Wait& wait) { return wait.kind == kind ? wait.transfer_ms() : 0; });
}

double Evidence::for_last_rank_ms() const {
  return of_exposed([](const Wait& wait) { return wait.for_last_rank_ms(); });
}

double Evidence::for_stages_ms() const {
  return summary.pipeline ? std::min(summary.pipeline->waiting_ms, ms.exposed) : 0;
}

double Evidence::bubble_ms() const {
  return summary.pipeline
             ? std::min(summary.pipeline->bubble_ms + summary.pipeline->uneven_ms, ms.exposed)
             : 0;
}

double Evidence::scaled(double traced_ms) const {
  const double traced_compute = mean_of_steps(
      trace, [](const auto&, const TracedStep& step) { return ms_of(step, Activity::compute); });
  return traced_compute > 0 ? traced_ms * ms.compute / traced_compute : 0;
}

double Evidence::backward_ms() const {
  if (!traced()) return ms.compute * 2 / 3;
  return scaled(mean_of_steps(trace, [](const auto&, const TracedStep& step) {
    double sum = 0;
    for (const TraceSlice& slice : step.main)
      if (slice.activity == Activity::compute && slice.name.starts_with("backward "))
        sum += slice.ms();
    return sum;
  }));
}

void add_trace(Evidence& evidence, TracedRun trace) {
  evidence.trace = std::move(trace);
  const Collectives collectives(evidence.trace, evidence.plan());
  evidence.waits = waits_of(evidence.trace, collectives);
  evidence.path = critical_path(evidence.trace, collectives, evidence.ms.step);
  evidence.ranks.clear();
  for (const TracedWorker& worker : evidence.trace.workers) {
    RankTime time{.rank = worker.rank};
    for (const TracedStep& step : worker.steps) {
      time.compute_ms += ms_of(step, Activity::compute);
      for (const TraceSlice& slice : step.main)
        if (slice.activity != Activity::exposed) time.busy_ms += slice.ms();
    }
    time.compute_ms /= static_cast<double>(worker.steps.size());
    time.busy_ms /= static_cast<double>(worker.steps.size());
    evidence.ranks.push_back(time);
  }
  if (!evidence.traced()) evidence.no_trace = "its trace shows no steps, or nothing within them";
}

Evidence evidence_of_case(const runner::CaseSummary& summary,
                          const std::vector<const RunRecord*>& repeats,
                          const std::filesystem::path& folder) {
  Evidence out{.summary = summary, .ms = parts_of(repeats)};
  const auto distance = [&](const RunRecord* row) {
    return std::abs(row->step_ms.median - out.ms.step);
  };
  out.row = *std::min_element(
      repeats.begin(), repeats.end(),
      [&](const RunRecord* a, const RunRecord* b) { return distance(a) < distance(b); });
  try {
    const runner::TracedSpans trace =
        runner::read_trace_file(folder / "traces" / (out.plan().id + ".json"));
    add_trace(out, traced_run(trace, out.plan()));
  } catch (const Error& error) {
    out.no_trace = error.what();
  }
  return out;
}

std::vector<runner::CaseSummary> failed_cases(const std::vector<RunRecord>& rows) {
  std::vector<runner::CaseSummary> out;
  for (runner::CaseSummary& summary : runner::summarise(rows))
    if (summary.plan.purpose != Purpose::reference && !summary.finished())
      out.push_back(std::move(summary));
  return out;
}

std::vector<Evidence> evidence_of(const std::vector<RunRecord>& rows,
                                  const std::filesystem::path& folder) {
  std::vector<Evidence> out;
  const std::vector<const RunRecord*> counting = runner::rows_that_count(rows);
  for (const runner::CaseSummary& summary : runner::summarise(rows)) {
    if (summary.plan.purpose == Purpose::reference) continue;
    std::vector<const RunRecord*> repeats;
    for (const RunRecord* row : counting)
      if (row->status == "ok" && row->plan.listing.label == summary.label() &&
          row->plan.world == summary.plan.world && row->plan.purpose == summary.plan.purpose)
        repeats.push_back(row);
    if (!repeats.empty()) out.push_back(evidence_of_case(summary, repeats, folder));
  }
  return out;
}

}  // namespace ringside::tools::explain
