#include "experiments/runner/report/utilization.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "core/plan/device_traits.h"
#include "core/plan/places.h"
#include "core/sim/uneven.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

/// "1.23 GFLOP"
std::string flop_text(double operations) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  for (; operations >= 1000 && prefix + 1 < std::size(prefixes); ++prefix) operations /= 1000;
  return fmt::format("{:.3g} {}FLOP", operations, prefixes[prefix]);
}

/// The mean over the devices of all workers. Nothing if a device's figures lack the dtype.
std::optional<Peak> peak_of_cluster(const RunPlan& plan) {
  const std::string dtype = products_dtype(plan);
  double sum = 0;
  for (int worker = 0; worker < plan.world; ++worker) {
    const auto machine = place_of_worker(*plan.cluster, worker).machine;
    const auto& tflops = sim::device_of(*plan.cluster, machine).tflops;
    const auto found = tflops.find(dtype);
    if (found == tflops.end()) return {};
    sum += 1e12 * found->second;
  }
  return Peak{sum / plan.world, dtype,
              fmt::format("cluster {}, device {}", plan.cluster->name, plan.cluster->device.name)};
}

std::string where_to_find_a_peak(const RunPlan& plan) {
  if (!device_traits(plan.device.kind).on_processor)
    return "set device.peak_tflops to what the maker of the GPU says";
  return fmt::format(
      "let `ringside calibrate --threads {}` measure this machine before the comparison, or set "
      "device.peak_tflops",
      plan.device.threads);
}

/// "3 x (linear 1.05 MFLOP + attention 32.8 kFLOP) a sample of 64 tokens"
std::string work_text(const ModelWork& work) {
  std::string products;
  const auto add = [&](const char* kind, double operations) {
    if (operations > 0)
      products +=
          fmt::format("{}{} {}", products.empty() ? "" : " + ", kind, flop_text(operations));
  };
  add("linear", work.linear);
  add("attention", work.attention);
  add("convolution", work.convolution);
  std::string out = fmt::format("3 x ({}) in products of forward a sample", products);
  if (work.tokens > 0)
    out += fmt::format(" (6 N a token of {:.0f}, N = {:.4g} parameters in products{})", work.tokens,
                       work.linear / (2 * work.tokens),
                       work.attention > 0 ? ", and those of attention" : "");
  return out;
}

std::string formula_of(const Utilization& found, int world, double samples_per_s) {
  const ModelWork& work = *found.work;
  std::string out = fmt::format(
      "MFU = {} = {}; x {:.4g} samples/s / ({} worker{} x {}/s in {}) = {:.1f}%", work_text(work),
      flop_text(work.model()), samples_per_s, world, world == 1 ? "" : "s",
      flop_text(found.peak->flops), found.peak->dtype, 100 * *found.mfu);
  if (found.hfu)
    out += fmt::format("; HFU, with what is recomputed: {} a sample, {:.1f}%",
                       flop_text(work.executed), 100 * *found.hfu);
  return out;
}

}  // namespace

std::optional<Peak> peak_of(const RunRecord& row) {
  const RunPlan& plan = row.plan;
  if (plan.device.peak_tflops > 0)
    return Peak{1e12 * plan.device.peak_tflops, products_dtype(plan),
                "device.peak_tflops of the experiment"};
  return plan.cluster ? peak_of_cluster(plan) : row.measured_peak;
}

Utilization utilization_of(const RunRecord& row, double samples_per_s) {
  Utilization out{.work = row.work, .peak = peak_of(row)};
  const RunPlan& plan = row.plan;
  const double tokens = row.samples_per_s > 0 ? row.tokens_per_s / row.samples_per_s : 0;
  constexpr double whole = 1 - 1e-9;
  if (!out.work)
    out.missing = "the run did not say what a sample of its model computes";
  else if (out.work->forward() <= 0)
    out.missing = "the model has no products";
  else if (tokens < whole * out.work->tokens)
    out.missing = "samples differ in length, so what one of them computes is not known";
  else if (!out.peak)
    out.missing = fmt::format("no peak of the device in {} is known: {}", products_dtype(plan),
                              where_to_find_a_peak(plan));
  if (!out.missing.empty()) return out;
  const double each_flop = samples_per_s / (plan.world * out.peak->flops);
  out.mfu = each_flop * out.work->model();
  if (plan.train.recompute != Recompute::none) out.hfu = each_flop * out.work->executed;
  out.formula = formula_of(out, plan.world, samples_per_s);
  return out;
}

ordered_json to_json(const Utilization& utilization) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  const auto& [mfu, hfu, work, peak, formula, missing] = utilization;
  ordered_json out = {{"value", or_null(mfu)}, {"hfu", or_null(hfu)}};
  out["flops_per_sample"] = work ? ordered_json(work->model()) : ordered_json();
  out["executed_flops_per_sample"] = work ? ordered_json(work->executed) : ordered_json();
  out["forward"] = work ? ordered_json{{"linear", work->linear},
                                       {"attention", work->attention},
                                       {"convolution", work->convolution}}
                        : ordered_json();
  out["peak_flops"] = peak ? ordered_json(peak->flops) : ordered_json();
  out["peak_source"] = peak ? ordered_json(peak->source) : ordered_json();
  out["dtype"] = peak ? ordered_json(peak->dtype) : ordered_json();
  out["formula"] = formula.empty() ? ordered_json() : ordered_json(formula);
  out["reason"] = missing.empty() ? ordered_json() : ordered_json(missing);
  return out;
}

}  // namespace ringside::runner
