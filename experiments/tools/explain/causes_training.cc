// Causes that lie in the training itself: its batch, its optimizer, and communication that no
// particular cause explains.
#include <fmt/format.h>

#include <algorithm>

#include "core/plan/mesh.h"
#include "core/plan/slices.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/runner/report/utilization.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {
namespace {

/// The share of a step below which the compute that grows with the samples counts as little: twice
/// the samples then make the step at most a quarter longer.
constexpr double little_compute = 0.25;
constexpr std::int64_t larger = 4;  // times the batch that is tried

/// The exposed communication that particular causes have explained.
double explained_ms(const std::vector<Finding>& before) {
  double sum = 0;
  for (const Finding& one : before)
    if (one.of_communication) sum += one.ms;
  return sum;
}

/// Exposed time other than waits for a rank that comes late, and than a pipeline's bubble.
double exposed_transfer_ms(const Evidence& e) {
  return std::max(0.0, e.ms.exposed - e.bubble_ms() - e.for_last_rank_ms());
}

/// The least time that the bytes of the busiest rank take over its link, ms; 0 if the link is not
/// known.
double link_ms(const Evidence& e) {
  const auto gbs = link_gbs(e.plan());
  return gbs ? e.summary.bytes.sent / *gbs / 1e6 : 0;
}

/// Whether moving bytes takes most of the communication, not the fixed time of messages.
bool link_is_full(const Evidence& e) { return link_ms(e) >= 0.5 * exposed_transfer_ms(e); }

/// The compute that grows with the samples: all compute, but at most the time of the model's
/// operations at a quarter of the device's peak. Large batches reach more than that; the rest of
/// the time of small ones goes into launches, and into reading parameters that few samples share.
double growing_ms(const Evidence& e) {
  constexpr double share_of_peak = 0.25;
  const std::optional<Peak> peak = runner::peak_of(*e.row);
  if (!e.row->work || e.row->work->executed <= 0 || !peak) return e.ms.compute;
  const double operations = e.row->work->executed * static_cast<double>(samples_of(e.plan(), 0));
  return std::min(e.ms.compute, 1e3 * operations / (share_of_peak * peak->flops));
}

Remedy larger_batch(const RunPlan& plan) {
  const TrainConfig& train = plan.train;
  Remedy out{.words = fmt::format("a batch {} times as large", larger),
             .caveat = "which is another training"};
  if (train.batch_per_rank > 0)
    out.settings.push_back({"train.batch_per_rank", std::to_string(larger * train.batch_per_rank)});
  else
    out.settings.push_back({"train.global_batch", std::to_string(larger * train.global_batch)});
  // As many micro-batches, each larger.
  out.settings.push_back({"train.micro_batch", std::to_string(larger * train.micro_batch)});
  return out;
}

}  // namespace

std::optional<Finding> recomputed(const Evidence& e, const std::vector<Finding>&) {
  if (e.plan().train.recompute != Recompute::full) return {};
  // Forward is a third of forward and backward, and is done twice.
  const double again = e.ms.compute / 4;
  return Finding{
      .ms = again,
      .sentence = fmt::format("train.recompute = 'full' computes forward twice: about {} "
                              "of {} ms of compute.",
                              runner::milliseconds(again), runner::milliseconds(e.ms.compute)),
      .remedies = {{.words = "keeping the activations",
                    .settings = {{"train.recompute", "none"}},
                    .caveat = "if the device has the memory"}}};
}

std::optional<Finding> whole_optimizer(const Evidence& e, const std::vector<Finding>&) {
  const RunPlan& plan = e.plan();
  const auto division = division_of(plan);
  if (!division || division->optimizer() > 1 || data_world(plan) < 2) return {};
  const double saved = e.ms.optimizer * (1 - 1.0 / data_world(plan));
  return Finding{
      .ms = saved,
      .sentence = fmt::format("Every one of {} ranks updates the whole model, which takes {} ms; "
                              "ranks that update a shard each would take {} ms.",
                              data_world(plan), runner::milliseconds(e.ms.optimizer),
                              runner::milliseconds(e.ms.optimizer - saved)),
      .remedies = {sharded_optimizer()}};
}

std::optional<Finding> tiny_batch(const Evidence& e, const std::vector<Finding>& before) {
  const RunPlan& plan = e.plan();
  const double growing = growing_ms(e);
  const double fixed = exposed_transfer_ms(e) + e.ms.optimizer + e.ms.encoding +
                       std::max(0.0, e.ms.idle) + (e.ms.compute - growing);
  const double left = fixed - explained_ms(before);
  const double step = e.ms.mean();
  if (e.ms.compute <= 0 || growing >= little_compute * step || left < 0.5 * step ||
      (exposed_transfer_ms(e) > 0.5 * fixed && link_is_full(e)))
    return {};
  const auto samples = samples_of(plan, 0);
  return Finding{
      .ms = left,
      .sentence = fmt::format(
          "The batch is tiny: a worker has {} sample{} of a step. Of its {} ms of compute no more "
          "than {} ms grow with the samples; what a step costs whatever its batch, {} ms of "
          "exposed communication and {} ms of the optimizer among it, takes {} ms. With twice the "
          "samples a step would take about {:.2f} times as long.",
          samples, samples == 1 ? "" : "s", runner::milliseconds(e.ms.compute),
          runner::milliseconds(growing), runner::milliseconds(exposed_transfer_ms(e)),
          runner::milliseconds(e.ms.optimizer), runner::milliseconds(fixed), 1 + growing / step),
      .remedies = {larger_batch(plan)}};
}

std::optional<Finding> long_communication(const Evidence& e, const std::vector<Finding>& before) {
  const RunPlan& plan = e.plan();
  const bool tiny = std::any_of(before.begin(), before.end(),
                                [](const Finding& one) { return one.cause == "a tiny batch"; });
  if (tiny || plan.world < 2) return {};
  const double left = exposed_transfer_ms(e) - explained_ms(before);
  std::string link;
  if (const auto gbs = link_gbs(plan))
    link = fmt::format(" Over a link of {} GB/s these bytes take at least {} ms.",
                       short_number(*gbs), runner::milliseconds(link_ms(e)));
  Finding out{
      .ms = std::max(0.0, left),
      .sentence = fmt::format(
          "Communication takes longer than compute can hide: it goes on for {} "
          "ms of a step, and {} ms are exposed. The busiest rank sends {} MB.{}",
          runner::milliseconds(e.ms.communication), runner::milliseconds(exposed_transfer_ms(e)),
          runner::megabytes(e.summary.bytes.sent), link)};
  if (runner::find_scheme(plan.scheme).converts_gradients &&
      reduce_dtype(plan.train) == DType::f32 && !share_a_memory(plan))
    out.remedies.push_back({.words = "gradients in 16 bits on their way",
                            .settings = {{"train.reduce_precision", "bf16"}},
                            .caveat = "which rounds them"});
  if (plan.promise == Promise::same_run) out.remedies.push_back(larger_batch(plan));
  return out;
}

}  // namespace ringside::tools::explain
