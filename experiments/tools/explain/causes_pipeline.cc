// Causes that lie in a pipeline: its schedule, its stages, and what they hand to each other. Each
// claims its own part of the time in which workers wait for other stages.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.h"
#include "core/optim/optimizers.h"
#include "core/plan/mesh.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {
namespace {

/// Twice as many micro-batches of half the samples, or, where they have a sample each, of twice the
/// samples.
Remedy more_micro_batches(const RunPlan& plan) {
  const TrainConfig& train = plan.train;
  const std::int64_t twice = 2 * train.accumulation;
  Remedy out{.words = "twice as many micro-batches",
             .settings = {{"train.accumulation", std::to_string(twice)}}};
  if (train.global_batch % (twice * data_world(plan)) == 0) return out;
  if (train.batch_per_rank > 0)
    out.settings.push_back({"train.batch_per_rank", std::to_string(2 * train.batch_per_rank)});
  else
    out.settings.push_back({"train.global_batch", std::to_string(2 * train.global_batch)});
  out.caveat = "which is another training";
  return out;
}

bool has_schedule(const RunPlan& plan, std::string_view name) {
  return plan.pipeline.schedule == name;
}

/// Whether optimizers wait for sums over the stages, and could go ahead of them.
bool could_go_ahead(const RunPlan& plan) {
  const OptimizerConfig& optimizer = plan.optimizer;
  return !plan.pipeline.post_validation && plan.train.offload == Offload::none &&
         rounds_of(optimizer, skips_steps(plan.train)) > 0 &&
         find_optimizer(optimizer.kind).rounds == 0 && runner::find_scheme(plan.scheme).amends;
}

/// Schedules with a smaller bubble than the plan's, the one that costs least first. Cuts are those
/// of other stages where the number of stages changes.
std::vector<Remedy> other_schedules(const RunPlan& plan) {
  std::vector<Remedy> out;
  const bool one_stage = plan.pipeline.chunks == 1;
  if (has_schedule(plan, "sequential"))
    out.push_back({.words = "a pipelined schedule", .settings = {{"pipeline.schedule", "1f1b"}}});
  if (has_schedule(plan, "1f1b") || has_schedule(plan, "gpipe"))
    out.push_back(
        {.words = "a schedule that splits backward", .settings = {{"pipeline.schedule", "zb_h1"}}});
  if (one_stage && (has_schedule(plan, "1f1b") || has_schedule(plan, "gpipe")) &&
      plan.train.accumulation % plan.mesh.pipeline == 0)
    out.push_back({.words = "two stages for each rank",
                   .settings = {{"pipeline.schedule", "interleaved"},
                                {"pipeline.chunks", "2"},
                                {"pipeline.cuts", "[]"}},
                   .caveat = "which sends twice as much"});
  if ((has_schedule(plan, "zb_h2") || has_schedule(plan, "zb_v")) && could_go_ahead(plan))
    out.push_back({.words = "optimizers that do not wait for the norm of all stages",
                   .settings = {{"pipeline.post_validation", "true"}},
                   .caveat = "which takes memory for a copy of parameters and optimizer state"});
  return out;
}

std::string formula_text(const runner::PipelineSummary& summary) {
  if (!summary.bubble_by_formula) return {};
  return fmt::format(" By the formula of the schedule the bubble is {:.1f}% of the step.",
                     100 * *summary.bubble_by_formula);
}

}  // namespace

std::optional<Finding> bubble(const Evidence& e, const std::vector<Finding>&) {
  if (!e.summary.pipeline) return {};
  const runner::PipelineSummary& summary = *e.summary.pipeline;
  const RunPlan& plan = e.plan();
  Finding out{.ms = summary.bubble_ms,
              .sentence = fmt::format(
                  "The pipeline fills and drains in every step: with schedule {}, {} and {} an "
                  "average worker waits {} ms, even if all stages take equally "
                  "long and sends take no time.{}",
                  summary.schedule, counted(plan.mesh.pipeline, "rank"),
                  counted(summary.micro_batches, "micro-batch", "es"),
                  runner::milliseconds(summary.bubble_ms), formula_text(summary)),
              .remedies = {more_micro_batches(plan)}};
  for (Remedy& remedy : other_schedules(plan)) out.remedies.push_back(std::move(remedy));
  return out;
}

std::optional<Finding> imbalance_of_stages(const Evidence& e, const std::vector<Finding>&) {
  if (!e.summary.pipeline) return {};
  const runner::PipelineSummary& summary = *e.summary.pipeline;
  const auto slowest =
      std::ranges::max_element(summary.stages, {}, &runner::StageSummary::compute_ms);
  Finding out{.ms = summary.uneven_ms,
              .sentence = fmt::format(
                  "Stage {} on rank {} takes {:.2f} ms for a micro-batch, {:.2f} times as long as "
                  "the mean stage, and the others wait for it.",
                  slowest->stage, slowest->rank, slowest->compute_ms(), summary.imbalance)};
  if (e.plan().pipeline.balance == StageBalance::parameters)
    out.remedies.push_back({.words = "stages that take equally long",
                            .settings = {{"pipeline.balance", "time"}, {"pipeline.cuts", "[]"}}});
  out.remedies.push_back({.words = "other borders between the stages, by pipeline.cuts"});
  return out;
}

std::optional<Finding> exposed_sends(const Evidence& e, const std::vector<Finding>&) {
  if (!e.summary.pipeline) return {};
  const runner::PipelineSummary& summary = *e.summary.pipeline;
  const RunPlan& plan = e.plan();
  Finding out{
      .ms = summary.sends_ms,
      .sentence = fmt::format(
          "Values come late: an average worker waits {} ms of a step longer for other "
          "stages than its schedule would with the measured times and free sends. The "
          "busiest rank sends {} MB a step to other stages.",
          runner::milliseconds(summary.sends_ms), runner::megabytes(summary.pipeline.sent))};
  if (data_world(plan) > 1 && plan.mesh.innermost != MeshDimension::pipeline)
    out.remedies.push_back({.words = "stages that are neighbours within a machine",
                            .settings = {{"mesh.innermost", "pipeline"}}});
  if (plan.pipeline.chunks > 1 && has_schedule(plan, "interleaved"))
    out.remedies.push_back(
        {.words = "fewer borders, with one stage for each rank",
         .settings = {
             {"pipeline.schedule", "1f1b"}, {"pipeline.chunks", "1"}, {"pipeline.cuts", "[]"}}});
  out.remedies.push_back({.words = "another placement, with faster links between the stages"});
  return out;
}

}  // namespace ringside::tools::explain
