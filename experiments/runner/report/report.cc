#include "experiments/runner/report/report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/plan/same_run.h"
#include "experiments/runner/results/attempts.h"

namespace ringside::runner {
namespace {

/// The records of one case. `attempts` has all of them; `repeats` has, for each repeat, the one
/// record that counts, with the smallest seed first.
struct Case {
  CaseRecords repeats, attempts;
};

/// Whether both runs belong to one line of the table: they differ at most in repeat and seed.
bool same_line(const RunPlan& a, RunPlan b) {
  b.train.seed = a.train.seed;
  return same_case(a, b);
}

std::vector<Case> cases_of(const std::vector<RunRecord>& rows) {
  std::vector<Case> cases;
  const auto case_of = [&](const RunRecord& row) -> Case& {
    for (Case& known : cases)
      if (same_line(known.attempts[0]->plan, row.plan)) return known;
    return cases.emplace_back();
  };
  for (const RunRecord& row : rows) case_of(row).attempts.push_back(&row);
  for (const RunRecord* row : rows_that_count(rows)) case_of(*row).repeats.push_back(row);
  // Runs of two cases that have the same name cannot be told apart: one of the cases counts.
  std::erase_if(cases, [](const Case& one) { return one.repeats.empty(); });
  const auto by_seed = [](const RunRecord* a, const RunRecord* b) {
    return std::pair(a->plan.train.seed, a->plan.repeat) <
           std::pair(b->plan.train.seed, b->plan.repeat);
  };
  for (Case& one : cases) std::stable_sort(one.repeats.begin(), one.repeats.end(), by_seed);
  const auto place = [](const Case& one) {
    const RunPlan& plan = one.repeats[0]->plan;
    return std::pair(plan.scheme != reference_scheme, plan.listing.line);
  };
  std::stable_sort(cases.begin(), cases.end(),
                   [&](const Case& a, const Case& b) { return place(a) < place(b); });
  return cases;
}

void add_prediction(CaseSummary& out, const RunRecord& row) {
  if (!row.predicted) return;
  out.prediction_failure = row.predicted->error;
  if (!out.prediction_failure.empty()) return;
  const double ms = row.predicted->step_ms, peak = static_cast<double>(row.predicted->memory_peak);
  if (ms < 0) return;
  out.predicted = {ms, ms / out.step_ms - 1, peak,
                   peak / static_cast<double>(out.memory.peak()) - 1};
}

void add_bounds(CaseSummary& out, const RunRecord& row) {
  const auto& bounds = row.predicted ? row.predicted->bounds : row.bounds;
  if (bounds) out.simulated_ms = {bounds->low_ms, bounds->high_ms};
}

CaseRecords finished(const CaseRecords& rows) {
  CaseRecords out;
  for (const RunRecord* row : rows)
    if (row->status == "ok") out.push_back(row);
  return out;
}

void add_rate(CaseSummary& out, const CaseRecords& rows) {
  const auto slower = [](const RunRecord* a, const RunRecord* b) {
    return a->samples_per_s < b->samples_per_s;
  };
  const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), slower);
  out.samples_per_s = median_of(rows, [](const RunRecord& row) { return row.samples_per_s; });
  if (out.samples_per_s > 0)
    out.spread = ((*most)->samples_per_s - (*least)->samples_per_s) / 2 / out.samples_per_s;
  const double tokens = median_of(rows, [](const RunRecord& row) { return row.tokens_per_s; });
  if (tokens > 0) out.tokens_per_s = tokens;
}

CaseSummary summarise_case(const Case& one, const std::vector<RunRecord>& rows,
                           const CaseRecords& counting) {
  const RunPlan& plan = one.repeats[0]->plan;
  CaseSummary out;
  out.plan = plan;
  out.plan.history.clear();
  out.runs = runs_of(one.repeats, one.attempts);
  out.setup = setup_of(one.repeats);
  const CaseRecords good = finished(one.repeats);
  if (good.empty()) return out;
  add_rate(out, good);
  out.step_ms = median_of(good, [](const RunRecord& row) { return row.step_ms.median; });
  out.time_ms = times_of(good);
  out.overlap = overlap_of(good);
  out.utilization = utilization_of(*good[0], out.samples_per_s);
  out.bytes = bytes_of(good);
  out.reports = reports_of(good);
  out.memory = summarise_memory(good);
  out.pipeline = pipeline_of(good);
  out.state_by_formula = state_formula(plan, good[0]->parameters);
  add_prediction(out, *good[0]);
  add_bounds(out, *good[0]);
  out.losses = losses_of(good);
  if (good[0]->cores)
    out.cores = median_of(good, [](const RunRecord& row) { return row.cores.value_or(0); });
  if (plan.purpose != Purpose::reference) out.time_to_loss = time_to_loss(good, counting);
  // The verdict is over all attempts: a disturbed run was slow, but its results count.
  out.verdict = verdict(finished(one.attempts), rows);
  return out;
}

/// Samples/s by repeat and seed.
using Rates = std::map<std::pair<int, std::int64_t>, double>;

Rates rates_of(const Case& one) {
  Rates rates;
  for (const RunRecord* row : finished(one.repeats))
    rates[{row->plan.repeat, row->plan.train.seed}] = row->samples_per_s;
  return rates;
}

/// Whether samples/s of the two runs can be compared: both train the same model on the same data in
/// the same precision, with the same kind of optimizer, and on the same devices.
bool same_work(const RunPlan& a, const RunPlan& b) {
  ModelConfig model = a.model;
  model.batch_norm_group = b.model.batch_norm_group;
  return model == b.model && a.data == b.data && a.train.precision == b.train.precision &&
         a.optimizer.kind == b.optimizer.kind && a.device.kind == b.device.kind &&
         a.device.tf32 == b.device.tf32 && a.cluster == b.cluster;
}

/// The case of `single` that the speed-ups of `one` are measured against: of several, best one with
/// the same global batch, then with the same number of threads (on all cores: with the most), then
/// with the same recomputation, then with the fewest micro-batches. References do not count here:
/// they run only once, on a machine that is still cold. Null if there is no such case.
const Case* baseline_of(const Case& one, const std::vector<Case>& cases, Purpose purpose) {
  const RunPlan& plan = one.repeats[0]->plan;
  const auto worth = [&](const Case& single) {
    const RunPlan& candidate = single.repeats[0]->plan;
    const std::int64_t threads = candidate.device.threads;
    return std::tuple(
        candidate.train.global_batch == plan.train.global_batch,
        purpose == Purpose::all_cores ? threads : std::int64_t{threads == plan.device.threads},
        candidate.train.recompute == plan.train.recompute, -candidate.train.accumulation);
  };
  const Case* best = nullptr;
  for (const Case& candidate : cases) {
    const RunPlan& single = candidate.repeats[0]->plan;
    if (single.scheme != reference_scheme || single.purpose != purpose ||
        !same_work(single, plan) || finished(candidate.repeats).empty())
      continue;
    if (!best || worth(candidate) > worth(*best)) best = &candidate;
  }
  return best;
}

Ratio ratio(const Rates& rates, const Rates& by) {
  std::vector<double> ratios;
  for (const auto& [repeat, rate] : rates)
    if (const auto other = by.find(repeat); other != by.end() && other->second > 0)
      ratios.push_back(rate / other->second);
  if (ratios.empty()) return {};
  return {median(ratios), median_interval(ratios)};
}

}  // namespace

Fields fields_of(CasePrediction& prediction) {
  return {{"step_ms", &prediction.step_ms},
          {"step_ms_error", &prediction.step_ms_error},
          {"memory_peak", &prediction.memory_peak},
          {"memory_peak_error", &prediction.memory_peak_error}};
}

std::vector<CaseSummary> summarise(const std::vector<RunRecord>& rows) {
  std::vector<CaseSummary> out;
  const std::vector<Case> cases = cases_of(rows);
  const CaseRecords counting = rows_that_count(rows);
  for (const Case& one : cases) {
    CaseSummary summary = summarise_case(one, rows, counting);
    // A simulation without numerics is taken as the same run if its scheme promises that.
    const bool same_run = summary.plan.promise == Promise::same_run &&
                          summary.verdict.proof != Proof::different &&
                          (summary.verdict.proof != Proof::not_shown || !computes(summary.plan));
    if (same_run && !shares_device(summary.plan) && summary.plan.purpose != Purpose::reference) {
      const Rates rates = rates_of(one);
      const std::int64_t batch = one.repeats[0]->plan.train.global_batch;
      if (const Case* single = baseline_of(one, cases, Purpose::asked)) {
        summary.speed_up = ratio(rates, rates_of(*single));
        summary.baseline = single->repeats[0]->plan.listing.line;
        summary.other_batch = single->repeats[0]->plan.train.global_batch != batch;
      }
      if (const Case* all = baseline_of(one, cases, Purpose::all_cores))
        summary.of_all_cores = ratio(rates, rates_of(*all));
      // The case on all cores has more threads, but not more workers, so it has no efficiency.
      if (summary.speed_up.median >= 0 && summary.plan.purpose != Purpose::all_cores)
        summary.efficiency = summary.speed_up.median / summary.plan.world;
    }
    out.push_back(std::move(summary));
  }
  return out;
}

}  // namespace ringside::runner
