#include "experiments/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/base/error.h"

namespace ringside {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <class Figure>
std::vector<double> each(const std::vector<const Row*>& rows, Figure figure) {
  std::vector<double> values;
  for (const Row* row : rows) values.push_back(figure(*row));
  return values;
}

bool finished(const Row& row) { return row.status == "ok"; }

double most_bytes_sent(const Row& row) {
  double most = 0;
  for (const RankRecord& rank : row.ranks) most = std::max(most, rank.bytes_sent_per_step);
  return most;
}

/// All rows that repeat one thing, in order.
using Case = std::vector<const Row*>;

std::vector<Case> cases_of(const std::vector<Row>& rows) {
  std::vector<Case> cases;
  std::vector<std::string> schemes = {"single"};
  for (const Row& row : rows) {
    const auto known = std::find_if(cases.begin(), cases.end(), [&](const Case& one) {
      return same_case(one[0]->plan, row.plan);
    });
    if (known != cases.end())
      known->push_back(&row);
    else
      cases.push_back({&row});
    if (std::find(schemes.begin(), schemes.end(), row.plan.scheme) == schemes.end())
      schemes.push_back(row.plan.scheme);
  }
  const auto place = [&](const Case& one) {
    const RunPlan& plan = one[0]->plan;
    const auto scheme = std::find(schemes.begin(), schemes.end(), plan.scheme) - schemes.begin();
    return std::tuple(scheme, plan.label.size(), plan.label, plan.world);
  };
  std::stable_sort(cases.begin(), cases.end(),
                   [&](const Case& a, const Case& b) { return place(a) < place(b); });
  return cases;
}

/// The run of `single` that a row must equal; null if none has finished. Where there is none with
/// the row's own order of sums, any other will do to compare losses.
struct Reference {
  const Row* row = nullptr;
  bool same_sums = false;
};
Reference reference_of(const Row& row, const std::vector<Row>& rows) {
  Reference found;
  for (const Row& candidate : rows) {
    if (candidate.plan.scheme != "single" || !finished(candidate)) continue;
    if (candidate.plan.sums == row.plan.sums) return {&candidate, true};
    if (!found.row) found.row = &candidate;
  }
  return found;
}

/// Parameters, losses and evaluations, bit for bit. The hash alone would not notice a scheme that
/// computes its losses wrongly and its gradients rightly.
bool same_bits(const Row& a, const Row& b) {
  const auto same_values = [](const RankRecord::Evaluation& x, const RankRecord::Evaluation& y) {
    return x.step == y.step && x.loss == y.loss && x.first_term == y.first_term &&
           x.accuracy == y.accuracy;
  };
  return !a.parameter_hash.empty() && a.parameter_hash == b.parameter_hash && a.loss == b.loss &&
         std::equal(a.evaluations.begin(), a.evaluations.end(), b.evaluations.begin(),
                    b.evaluations.end(), same_values);
}

/// Of the losses in training and in evaluations. (Accuracies count samples: where losses agree to
/// rounding a sample more or less may be right.)
double difference_of(const Row& a, const Row& b) {
  const auto held_out = [](const Row& row) {
    std::vector<double> losses;
    for (const auto& evaluation : row.evaluations) losses.push_back(evaluation.loss);
    return losses;
  };
  return std::max(largest_difference(a.loss, b.loss), largest_difference(held_out(a), held_out(b)));
}

void compare(CaseSummary& out, const Case& repeats, const std::vector<Row>& rows) {
  out.sameness = Sameness::reference;
  for (const Row* row : repeats) {
    const Reference reference = reference_of(*row, rows);
    Sameness now = Sameness::reference;
    if (!computes(row->plan)) {
      now = Sameness::not_computed;
    } else if (row->plan.promise == Promise::own_algorithm) {
      now = Sameness::own_algorithm;
    } else if (!reference.row) {
      now = Sameness::unknown;
    } else if (reference.row != row) {
      const double difference = difference_of(*row, *reference.row);
      const bool identical = reference.same_sums && same_bits(*row, *reference.row);
      out.difference = std::max(out.difference, difference);
      if (identical)
        // A repeat of the reference itself says nothing new.
        now = same_case(row->plan, reference.row->plan) ? Sameness::reference
                                                        : Sameness::bit_identical;
      else
        now =
            difference <= largest_rounding(row->plan) ? Sameness::to_rounding : Sameness::different;
    }
    out.sameness = std::max(out.sameness, now);
  }
}

void add_memory(CaseSummary& out, const Case& repeats) {
  for (const Row* row : repeats)
    for (const RankRecord& rank : row->ranks) {
      if (rank.at_peak.total() <= out.at_peak.total()) continue;
      out.at_peak = rank.at_peak;
      out.largest_rank = rank.rank;
      out.resident = rank.rss - rank.rss_of_peers;
      out.device_memory = rank.device_memory;
    }
}

void add_prediction(CaseSummary& out, const Row& row) {
  if (!row.predicted) return;
  out.prediction_failure = row.predicted->error;
  if (!out.prediction_failure.empty()) return;
  out.predicted_ms = row.predicted->step_ms;
  out.predicted_ms_error = out.predicted_ms / out.step_ms - 1;
  out.predicted_peak = static_cast<double>(row.predicted->memory_peak);
  out.predicted_peak_error = out.predicted_peak / static_cast<double>(out.at_peak.total()) - 1;
}

CaseSummary summarise_case(const Case& repeats, const std::vector<Row>& rows) {
  const RunPlan& plan = repeats[0]->plan;
  CaseSummary out;
  if (plan.cluster) out.cluster = plan.cluster->name;
  out.device = plan.device.kind;
  out.shared_device = shares_device(plan);
  out.label = plan.label;
  out.scheme = plan.scheme;
  out.promise = plan.promise;
  out.world = plan.world;
  out.processes = static_cast<int>(plan.ranks.size());
  out.only_reference = plan.purpose == Purpose::reference;
  out.repeats = static_cast<int>(repeats.size());
  Case good;
  for (const Row* row : repeats) {
    if (finished(*row)) {
      good.push_back(row);
    } else if (out.failed++ == 0) {
      out.error = row->error;
    }
  }
  if (good.empty()) return out;
  const auto speeds = each(good, [](const Row& row) { return row.samples_per_s; });
  const auto [least, most] = std::minmax_element(speeds.begin(), speeds.end());
  out.samples_per_s = median(speeds);
  if (out.samples_per_s > 0) out.spread = (*most - *least) / 2 / out.samples_per_s;
  out.step_ms = median(each(good, [](const Row& row) { return row.step_ms.median; }));
  out.compute_ms = median(each(good, [](const Row& row) { return row.time_ms.compute; }));
  out.exposed_ms = median(each(good, [](const Row& row) { return row.time_ms.exposed; }));
  out.optimizer_ms = median(each(
      good, [](const Row& row) { return row.time_ms.optimizer + row.time_ms.serving_optimizer; }));
  out.data_ms = median(each(good, [](const Row& row) { return row.time_ms.data; }));
  out.idle_ms = median(each(good, [](const Row& row) { return row.time_ms.idle; }));
  out.other_ms =
      median(each(good, [](const Row& row) { return row.time_ms.data + row.time_ms.idle; }));
  out.bytes_sent_per_step = median(each(good, most_bytes_sent));
  out.bytes_computed =
      std::any_of(good.begin(), good.end(), [](const Row* row) { return bytes_computed(*row); });
  out.bytes_minimum_per_step = good[0]->bytes_minimum_per_step;
  add_memory(out, good);
  add_prediction(out, *good[0]);
  if (!good[0]->loss.empty()) out.final_loss = good[0]->loss.back();
  if (!good[0]->evaluations.empty()) {
    out.held_out = good[0]->evaluations.back();
    out.perplexity = perplexity(*good[0], *out.held_out);
  }
  compare(out, good, rows);
  return out;
}

/// Median samples/s of `single` with the fewest micro-batches; 0 if it has not finished, or ran as
/// a reference alone: once and first, so cold.
double baseline(const std::vector<Row>& rows) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  std::vector<double> speeds;
  for (const Row& row : rows) {
    if (row.plan.scheme != "single" || row.plan.purpose != Purpose::asked || !finished(row))
      continue;
    const std::int64_t count = row.plan.train.accumulation;
    if (count < fewest) speeds.clear();
    fewest = std::min(fewest, count);
    if (count == fewest) speeds.push_back(row.samples_per_s);
  }
  return median(std::move(speeds));
}

}  // namespace

std::string_view name_of(Sameness sameness) {
  switch (sameness) {
    case Sameness::reference:
      return "reference";
    case Sameness::bit_identical:
      return "bit-identical";
    case Sameness::to_rounding:
      return "to rounding";
    case Sameness::different:
      return "DIFFERENT";
    case Sameness::not_computed:
      return "not computed";
    case Sameness::unknown:
      return "no reference";
    case Sameness::own_algorithm:
      return "own algorithm";
  }
  return "unknown";
}

double largest_rounding(const RunPlan& plan) {
  if (parameter_dtype(plan.train) != DType::f32) return 1e-2;
  return plan.device.kind == "cuda" ? 1e-4 : 1e-5;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
    // A loss that is no number differs from everything.
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, difference);
  }
  return largest;
}

std::vector<CaseSummary> summarise(const std::vector<Row>& rows) {
  std::vector<CaseSummary> out;
  const double single = baseline(rows);
  for (const Case& one : cases_of(rows)) {
    CaseSummary summary = summarise_case(one, rows);
    // Rows that were not computed keep what their scheme promises.
    const bool same_run = summary.promise == Promise::same_run &&
                          summary.sameness != Sameness::different &&
                          summary.sameness != Sameness::unknown;
    if (same_run && !summary.shared_device && single > 0 && summary.samples_per_s > 0) {
      summary.speed_up = summary.samples_per_s / single;
      summary.efficiency = summary.speed_up / summary.world;
    }
    out.push_back(std::move(summary));
  }
  return out;
}

}  // namespace ringside
