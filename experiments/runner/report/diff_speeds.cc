// The comparison of speeds in a diff.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/plan/same_run.h"
#include "experiments/runner/report/diff_lines.h"
#include "experiments/runner/report/two_samples.h"

namespace ringside::runner {
namespace {

/// The samples/s of a run by its repeat and seed.
using Rates = std::map<std::pair<int, std::int64_t>, double>;

Rates rates_of(const ComparedLine& line) {
  Rates rates;
  for (const RunRecord* row : line.finished)
    rates[{row->plan.repeat, row->plan.train.seed}] = row->samples_per_s;
  return rates;
}

/// The line of `single` by which speeds are divided: the one of the line's speed-up or, for a line
/// without speed-up, the only one that was asked for. Null if there is none, or it is the line.
const ComparedLine* baseline_of(const ComparedLine& line, const Lines& all) {
  const ComparedLine* only = nullptr;
  int singles = 0;
  for (const auto& [name, other] : all) {
    if (other.summary.plan.scheme != reference_scheme ||
        other.summary.plan.purpose != Purpose::asked || other.finished.empty())
      continue;
    if (line.summary.baseline >= 0) {
      if (other.finished[0]->plan.listing.line == line.summary.baseline)
        return &other == &line ? nullptr : &other;
      continue;
    }
    ++singles;
    only = &other;
  }
  return singles == 1 && only != &line ? only : nullptr;
}

std::vector<double> figures_of(const Rates& rates, const Rates* by) {
  std::vector<double> out;
  for (const auto& [repeat, rate] : rates) {
    if (!by) {
      out.push_back(rate);
      continue;
    }
    const auto other = by->find(repeat);
    if (other != by->end() && other->second > 0) out.push_back(rate / other->second);
  }
  std::erase_if(out, [](double figure) { return figure <= 0; });
  return out;
}

}  // namespace

SpeedDiff compare_speed(const ComparedLine& a, const Lines& all_a, const ComparedLine& b,
                        const Lines& all_b, const DiffRule& rule) {
  SpeedDiff out;
  out.label = a.summary.label();
  out.world = a.summary.plan.world;
  out.simulated = a.summary.simulated() && b.summary.simulated();
  out.disturbed = a.summary.runs.disturbed + b.summary.runs.disturbed;
  const Rates rates_a = rates_of(a), rates_b = rates_of(b);
  const ComparedLine *single_a = baseline_of(a, all_a), *single_b = baseline_of(b, all_b);
  if (!out.simulated && single_a && single_b &&
      single_a->summary.label() == single_b->summary.label()) {
    const Rates by_a = rates_of(*single_a), by_b = rates_of(*single_b);
    out.a = figures_of(rates_a, &by_a);
    out.b = figures_of(rates_b, &by_b);
    out.relative_to = single_a->summary.label();
  }
  if (out.a.empty() || out.b.empty()) {
    out.relative_to.clear();
    out.a = figures_of(rates_a, nullptr);
    out.b = figures_of(rates_b, nullptr);
  }
  out.median_a = median(out.a);
  out.median_b = median(out.b);
  if (out.a.empty() || out.b.empty() || shares_device(a.summary.plan) ||
      shares_device(b.summary.plan)) {
    out.outcome = SpeedChange::not_compared;
    return out;
  }
  const Factor factor = factor_between(out.a, out.b, rule.confidence);
  out.change = factor.estimate - 1;
  if (out.simulated) {
    out.p = out.change == 0 ? 1 : 0;
    return out;
  }
  if (factor.interval) {
    out.low = factor.interval->low - 1;
    out.high = factor.interval->high - 1;
  }
  const RankTest test = mann_whitney(out.a, out.b);
  out.p = test.p;
  out.exact = test.exact;
  return out;
}

void decide(std::vector<SpeedDiff>& speeds, const DiffRule& rule) {
  std::vector<SpeedDiff*> tested;
  std::vector<double> p;
  for (SpeedDiff& one : speeds)
    if (!one.simulated && one.outcome != SpeedChange::not_compared) {
      tested.push_back(&one);
      p.push_back(one.p);
    }
  const std::vector<double> corrected = holm(p);
  for (std::size_t i = 0; i < tested.size(); ++i) tested[i]->corrected_p = corrected[i];
  const double most_p = largest_p(rule.confidence);
  const auto rows = static_cast<double>(tested.size());
  for (SpeedDiff& one : speeds) {
    if (one.outcome == SpeedChange::not_compared) continue;
    if (one.simulated) one.corrected_p = one.p;
    const double least = smallest_p(one.a.size(), one.b.size());
    if (one.corrected_p > most_p) {
      const bool hopeless = !one.simulated && least * rows > most_p;
      one.outcome = hopeless ? SpeedChange::too_few : SpeedChange::none;
    } else if (std::abs(one.change) < rule.threshold) {
      one.outcome = SpeedChange::below;
    } else {
      one.outcome = one.change < 0 ? SpeedChange::slower : SpeedChange::faster;
    }
  }
}

Fields fields_of(SpeedDiff& diff) {
  return {{"label", &diff.label},
          {"world", &diff.world},
          {"relative_to", &diff.relative_to},
          {"a", &diff.a},
          {"b", &diff.b},
          {"median_a", &diff.median_a},
          {"median_b", &diff.median_b},
          {"change", &diff.change},
          {"low", &diff.low},
          {"high", &diff.high},
          {"p", &diff.p},
          {"corrected_p", &diff.corrected_p},
          {"exact", &diff.exact},
          {"simulated", &diff.simulated},
          {"disturbed", &diff.disturbed},
          {"outcome", Choice(&diff.outcome)}};
}

}  // namespace ringside::runner
