// A summary as JSON.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "experiments/runner/report/published.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/sweep.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;
using ringside::to_json;  // of structs with fields

template <class Value>
ordered_json or_null(const std::optional<Value>& value) {
  if (!value) return nullptr;
  if constexpr (std::is_same_v<Value, double>)
    return *value;
  else
    return to_json(*value);
}

ordered_json or_null(double value) { return value < 0 ? ordered_json() : ordered_json(value); }

/// [low, high], both multiplied by `scale`.
ordered_json interval_json(const std::optional<Interval>& interval, double scale = 1) {
  if (!interval) return nullptr;
  return {scale * interval->low, scale * interval->high};
}

ordered_json published_json(const CaseSummary& one, const std::vector<CaseSummary>& cases) {
  ordered_json out = ordered_json::array();
  for (const PublishedFigure& figure : published_figures(one, cases))
    out.push_back(to_json(figure));
  return out;
}

ordered_json target_json(const CaseSummary& one) {
  if (!one.time_to_loss || !one.time_to_loss->target) return nullptr;
  return one.time_to_loss->target->median;
}

ordered_json case_plan_json(const RunPlan& plan) {
  ordered_json swept = ordered_json::object(), assumed = ordered_json::object(), cluster;
  for (const Setting& setting : plan.listing.swept) swept[setting.key] = setting.value;
  if (plan.cluster) {
    cluster = plan.cluster->name;
    for (const sim::Assumed& part : plan.cluster->assumed) assumed[part.part] = part.keys;
  }
  return {{"scheme", plan.scheme},
          {"label", plan.listing.label},
          {"family", plan.listing.family},
          {"swept", swept},
          {"purpose", name_of(plan.purpose)},
          {"promise", name_of(plan.promise)},
          {"device", plan.device.kind},
          {"shared_device", shares_device(plan)},
          {"cluster", cluster},
          {"assumed", assumed},
          {"world", plan.world},
          {"processes", plan.ranks.size()}};
}

ordered_json speed_up_json(const CaseSummary& one) {
  return {{"speed_up", or_null(one.speed_up.median)},
          {"speed_up_interval", interval_json(one.speed_up.interval)},
          {"speed_up_of_other_batch", one.other_batch},
          {"efficiency", or_null(one.efficiency)},
          {"efficiency_interval", one.efficiency
                                      ? interval_json(one.speed_up.interval, 1.0 / one.plan.world)
                                      : ordered_json()},
          {"of_all_cores", or_null(one.of_all_cores.median)},
          {"of_all_cores_interval", interval_json(one.of_all_cores.interval)}};
}

ordered_json verdict_json(const Verdict& verdict) {
  const Proof proof = verdict.proof;
  const bool compared = (proof == Proof::to_rounding || proof == Proof::different) &&
                        std::isfinite(verdict.difference);
  return {{"proof", name_of(proof)},
          {"proof_cause", verdict.cause.empty() ? ordered_json() : ordered_json(verdict.cause)},
          {"largest_difference", compared ? ordered_json(verdict.difference) : ordered_json()}};
}

ordered_json case_json(const CaseSummary& one, const std::vector<CaseSummary>& cases) {
  const std::optional<Evaluation>& held_out = one.losses.held_out;
  ordered_json out = case_plan_json(one.plan);
  out["cores"] = or_null(one.cores);
  out["gpus"] = gpus(one.plan);
  out.update(to_json(one.runs));
  out["samples_per_s"] = one.samples_per_s;
  out["tokens_per_s"] = or_null(one.tokens_per_s);
  out["spread"] = one.spread;
  out.update(speed_up_json(one));
  out["step_ms"] = one.step_ms;
  out["simulated_interval_ms"] = interval_json(one.simulated_ms);
  out["predicted"] = or_null(one.predicted);
  out["published"] = published_json(one, cases);
  out["time_ms"] = to_json(one.time_ms);
  out["overlap"] = or_null(one.overlap);
  out["mfu"] = to_json(one.utilization);
  out.update(to_json(one.bytes));
  out.update(to_json(one.reports));
  out["memory"] = to_json(one.memory);
  out["pipeline"] = or_null(one.pipeline);
  out.update(to_json(one.losses));
  out["target_loss"] = target_json(one);
  out["time_to_loss"] = or_null(one.time_to_loss);
  out["held_out_loss"] = held_out ? ordered_json(held_out->loss) : ordered_json();
  out["held_out_accuracy"] = held_out ? ordered_json(held_out->accuracy) : ordered_json();
  out.update(verdict_json(one.verdict));
  out["setup"] = setup_json(one.plan, one.setup);
  return out;
}

}  // namespace

ordered_json summary_json(const std::string& experiment, const std::vector<CaseSummary>& cases) {
  ordered_json rows = ordered_json::array(), not_ranked = ordered_json::array(),
               sweeps = ordered_json::array();
  for (const CaseSummary& one : cases) rows.push_back(case_json(one, cases));
  for (const Tie& tie : ties(cases))
    not_ranked.push_back({{"world", tie.world}, {"labels", tie.labels}});
  for (const SweepTable& table : sweep_of(cases)) sweeps.push_back(to_json(table));
  return {{"schema", RunRecord::schema},
          {"experiment", experiment},
          {"cases", rows},
          {"not_ranked", not_ranked},
          {"sweeps", sweeps}};
}

}  // namespace ringside::runner
