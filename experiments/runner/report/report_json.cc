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

ordered_json case_json(const CaseSummary& one, const std::vector<CaseSummary>& cases) {
  const RunPlan& plan = one.plan;
  const Proof proof = one.verdict.proof;
  const bool compared = proof == Proof::to_rounding || proof == Proof::different;
  const bool per_worker = one.efficiency.has_value();
  ordered_json swept = ordered_json::object();
  for (const Setting& setting : plan.listing.swept) swept[setting.key] = setting.value;
  ordered_json assumed = ordered_json::object();
  if (plan.cluster)
    for (const sim::Assumed& part : plan.cluster->assumed) assumed[part.part] = part.keys;
  ordered_json figures = ordered_json::array();
  for (const RunFigure& figure : one.figures) figures.push_back(to_json(figure));
  return {
      {"scheme", plan.scheme},
      {"label", plan.listing.label},
      {"family", plan.listing.family},
      {"swept", swept},
      {"purpose", name_of(plan.purpose)},
      {"promise", name_of(plan.promise)},
      {"device", plan.device.kind},
      {"shared_device", shares_device(plan)},
      {"cluster", plan.cluster ? ordered_json(plan.cluster->name) : ordered_json()},
      {"assumed", assumed},
      {"world", plan.world},
      {"processes", plan.ranks.size()},
      {"cores", or_null(one.cores)},
      {"gpus", gpus(plan)},
      {"repeats", one.repeats},
      {"failed", one.failed},
      {"error", one.error},
      {"disturbed", one.disturbed},
      {"disturbance", one.disturbance},
      {"superseded", one.superseded},
      {"samples_per_s", one.samples_per_s},
      {"tokens_per_s", or_null(one.tokens_per_s)},
      {"spread", one.spread},
      {"speed_up", or_null(one.speed_up.median)},
      {"speed_up_interval", interval_json(one.speed_up.interval)},
      {"speed_up_of_other_batch", one.other_batch},
      {"efficiency", or_null(one.efficiency)},
      {"efficiency_interval",
       per_worker ? interval_json(one.speed_up.interval, 1.0 / plan.world) : ordered_json()},
      {"of_all_cores", or_null(one.of_all_cores.median)},
      {"of_all_cores_interval", interval_json(one.of_all_cores.interval)},
      {"step_ms", one.step_ms},
      {"simulated_interval_ms", interval_json(one.simulated_ms)},
      {"predicted", or_null(one.predicted)},
      {"published", published_json(one, cases)},
      {"time_ms", to_json(one.time_ms)},
      {"overlap", or_null(one.overlap)},
      {"mfu", to_json(one.utilization)},
      {"bytes_sent_per_step", one.bytes_sent_per_step},
      {"bytes_computed", one.bytes_computed},
      {"bytes_minimum_per_step", one.bytes_minimum_per_step},
      {"figures", figures},
      {"staleness", one.staleness ? to_json(fields_to_read(*one.staleness)) : ordered_json()},
      {"worker_steps", one.worker_steps},
      {"lost_workers", one.lost_workers},
      {"memory", to_json(one.memory)},
      {"final_loss", one.final_loss},
      {"loss_curve", or_null(one.loss_curve)},
      {"held_out_curve", or_null(one.held_out_curve)},
      {"target_loss", target_json(one)},
      {"time_to_loss", or_null(one.time_to_loss)},
      {"held_out_loss", one.held_out ? ordered_json(one.held_out->loss) : ordered_json()},
      {"held_out_accuracy", one.held_out ? ordered_json(one.held_out->accuracy) : ordered_json()},
      {"proof", name_of(proof)},
      {"proof_cause", one.verdict.cause.empty() ? ordered_json() : ordered_json(one.verdict.cause)},
      {"largest_difference", compared && std::isfinite(one.verdict.difference)
                                 ? ordered_json(one.verdict.difference)
                                 : ordered_json()},
      {"setup", setup_json(plan, one.setup)}};
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
