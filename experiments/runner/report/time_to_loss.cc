#include "experiments/runner/report/time_to_loss.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/plan/same_run.h"
#include "experiments/runner/report/curves.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t last_evaluations = 3;

Spread spread_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {median(values), {*low, *high}};
}

/// The run of `single` that trains what `row` trains, with the same learning rate for one replica:
/// of several the one that was asked for, then the one with the same repeat. Null if there is none.
const RunRecord* single_of(const RunRecord& row, const std::vector<const RunRecord*>& rows) {
  const RunRecord* found = nullptr;
  const auto worth = [&](const RunRecord& one) {
    return 2 * static_cast<int>(one.plan.purpose == Purpose::asked) +
           static_cast<int>(one.plan.repeat == row.plan.repeat);
  };
  for (const RunRecord* one : rows) {
    if (one->status != "ok" || one->plan.scheme != reference_scheme ||
        one->plan.purpose == Purpose::all_cores ||
        one->plan.optimizer.lr != row.plan.optimizer.lr || !same_training(one->plan, row.plan))
      continue;
    if (!found || worth(*one) > worth(*found)) found = one;
  }
  return found;
}

/// The loss that `row` has to reach; none if `single` decides it and has not finished.
std::optional<double> target_of(const RunRecord& row, const RunRecord* single) {
  if (row.plan.listing.target_kind == TargetKind::number) return row.plan.listing.target_loss;
  return single ? final_loss(*single) : std::nullopt;
}

}  // namespace

std::optional<Cost> cost_to(const RunRecord& row, double target) {
  const auto cost_at = [&](double steps, double seconds) {
    return Cost{seconds, steps * static_cast<double>(row.plan.train.global_batch),
                steps * bytes_of_all_ranks(row)};
  };
  const std::vector<Evaluation>& curve = held_out_curve(row);
  for (std::size_t e = 0; e < curve.size(); ++e) {
    const Evaluation& after = curve[e];
    if (after.loss > target) continue;
    if (e == 0) return cost_at(static_cast<double>(after.step), after.training_s);
    const Evaluation& before = curve[e - 1];
    const double share = (before.loss - target) / (before.loss - after.loss);
    const auto between = [share](double from, double to) { return from + share * (to - from); };
    return cost_at(between(static_cast<double>(before.step), static_cast<double>(after.step)),
                   between(before.training_s, after.training_s));
  }
  return {};
}

std::optional<double> final_loss(const RunRecord& row) {
  const std::vector<Evaluation>& curve = held_out_curve(row);
  const std::size_t all = curve.size(), count = std::min(all, last_evaluations);
  if (count == 0) return {};
  double sum = 0;
  for (std::size_t e = all - count; e < all; ++e) sum += curve[e].loss;
  return sum / static_cast<double>(count);
}

std::optional<TimeToLoss> time_to_loss(const std::vector<const RunRecord*>& runs,
                                       const std::vector<const RunRecord*>& rows) {
  TimeToLoss out;
  std::vector<double> targets, seconds, samples, bytes, speed_ups, differences;
  std::map<std::int64_t, double> of_single_by_seed;  // final_loss()
  for (const RunRecord* row : runs) {
    const std::optional<double> at_end = final_loss(*row);
    if (row->plan.listing.target_kind == TargetKind::none || !at_end) return {};
    const RunRecord* single = single_of(*row, rows);
    ++out.runs;
    const std::optional<double> target = target_of(*row, single);
    if (!target) continue;
    targets.push_back(*target);
    if (const auto of_single = single ? final_loss(*single) : std::nullopt) {
      differences.push_back(*at_end - *of_single);
      of_single_by_seed[row->plan.train.seed] = *of_single;
    }
    const std::optional<Cost> cost = cost_to(*row, *target);
    if (!cost) continue;
    ++out.reached;
    seconds.push_back(cost->seconds);
    samples.push_back(cost->samples);
    bytes.push_back(cost->bytes);
    if (!single || single->plan.purpose != Purpose::asked ||
        single->plan.repeat != row->plan.repeat)
      continue;
    if (const auto of_single = cost_to(*single, *target); of_single && cost->seconds > 0)
      speed_ups.push_back(of_single->seconds / cost->seconds);
  }
  if (out.runs == 0) return {};
  if (targets.size() < static_cast<std::size_t>(out.runs)) return out;
  out.target = spread_of(targets);
  if (differences.size() == targets.size()) out.final_difference = spread_of(differences);
  if (of_single_by_seed.size() > 1) {
    const auto [low, high] =
        std::minmax_element(of_single_by_seed.begin(), of_single_by_seed.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    out.seed_spread = (high->second - low->second) / 2;
  }
  if (out.reached < out.runs) return out;
  out.seconds = spread_of(seconds);
  out.samples = spread_of(samples);
  out.bytes = spread_of(bytes);
  if (speed_ups.size() == targets.size()) out.speed_up = spread_of(speed_ups);
  return out;
}

ordered_json to_json(const TimeToLoss& time) {
  const auto spread = [](const std::optional<Spread>& one) -> ordered_json {
    if (!one) return nullptr;
    return {{"median", one->median}, {"range", {one->range.low, one->range.high}}};
  };
  return {{"runs", time.runs},
          {"reached", time.reached},
          {"target", spread(time.target)},
          {"seconds", spread(time.seconds)},
          {"samples", spread(time.samples)},
          {"bytes", spread(time.bytes)},
          {"speed_up", spread(time.speed_up)},
          {"final_loss_minus_single", spread(time.final_difference)},
          {"seed_spread", time.seed_spread ? ordered_json(*time.seed_spread) : ordered_json()}};
}

}  // namespace ringside::runner
