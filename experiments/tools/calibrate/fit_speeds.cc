#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/models/presets.h"
#include "core/plan/places.h"
#include "experiments/tools/calibrate/cluster_fit.h"

namespace ringside::tools::calibrate {
namespace {

struct Fitted {
  std::string model, precision;
  double factor = 1;
};

/// The plan on devices that are `factor` times as fast.
RunPlan at_factor(RunPlan plan, double factor) {
  for (auto& [dtype, classes] : plan.cluster->device.efficiency)
    for (auto& [name, curve] : classes)
      for (auto& [time, share] : curve.points) share *= factor;
  return plan;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

/// The larger one divided by the smaller one, minus 1; deviations within rounding count as none.
double miss(double here, double measured) {
  const double miss = std::max(here / measured, measured / here) - 1;
  return miss < 1e-3 ? 0 : miss;
}

/// The time of a sample, in seconds, as a + b / factor.
struct Line {
  double a = 0, b = 0;
  double per_s(double factor) const { return 1 / (a + b / factor); }
};

}  // namespace

std::optional<double> published_per_s(const RunPlan& plan) {
  for (const Published& published : plan.listing.published) {
    if (published.measure == Measure::samples_per_s) return published.value;
    if (published.measure == Measure::step_ms)
      return 1e3 * static_cast<double>(plan.train.global_batch) / published.value;
  }
  return {};
}

std::vector<FittedFigure> fit_speeds(sim::ClusterSpec& cluster, const std::vector<RunPlan>& plans,
                                     const SimulatedStep& simulate) {
  std::vector<Line> lines;
  std::vector<Fitted> fits;
  for (const RunPlan& plan : plans) {
    const Preset* preset = preset_of(plan.model);
    if (!preset)
      throw Error(
          "{}: its model is no preset (`ringside list models`), and a cluster file knows models by "
          "the names of presets",
          plan.listing.label);
    if (plan.device.efficiency != 1)
      throw Error("{}: device.efficiency = {}: this factor is what is looked for; leave it out",
                  plan.listing.label, plan.device.efficiency);
    const double once = 1 / simulate(plan), half = 1 / simulate(at_factor(plan, 2));
    const Line line{2 * half - once, 2 * (once - half)};
    const double wanted = 1 / published_per_s(plan).value();
    if (!(line.b > 0 && wanted > line.a))
      throw Error(
          "{}: {:.6g} samples/s were measured, but launches and what else does not depend on the "
          "device's speed take {:.3g} ms a sample alone; is this the right cluster?",
          plan.listing.label, 1 / wanted, 1e3 * line.a);
    lines.push_back(line);
    fits.push_back({std::string(preset->name), products_dtype(plan), line.b / (wanted - line.a)});
  }

  using Key = std::pair<std::string, std::string>;  // precision, model
  std::map<Key, std::vector<double>> factors;
  for (const Fitted& fit : fits) factors[{fit.precision, fit.model}].push_back(fit.factor);
  for (const auto& [key, of_model] : factors)
    cluster.speeds.push_back({key.second, key.first, rounded(geometric_mean(of_model))});

  std::vector<FittedFigure> figures;
  std::map<std::string, std::vector<FittedFigure>> by_precision;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<double> others;
    double own = 1;
    for (const sim::ModelSpeed& speed : cluster.speeds) {
      if (speed.precision != fits[i].precision) continue;
      if (speed.model == fits[i].model)
        own = speed.factor;
      else
        others.push_back(speed.factor);
    }
    FittedFigure& figure = figures.emplace_back();
    figure.label = plans[i].listing.label;
    figure.figure = "samples/s";
    figure.measured = published_per_s(plans[i]).value();
    figure.before = lines[i].per_s(1);
    figure.after = lines[i].per_s(own);
    for (sim::ModelSpeed& speed : cluster.speeds)
      if (speed.precision == fits[i].precision && speed.model == fits[i].model)
        speed.error = std::max(speed.error, rounded(miss(figure.after, figure.measured)));
    if (!others.empty()) figure.left_out = lines[i].per_s(geometric_mean(others));
    by_precision[fits[i].precision].push_back(figure);
  }
  for (const auto& [precision, of_precision] : by_precision)
    if (const auto miss = largest_miss(of_precision))
      cluster.device.error[precision] = rounded(*miss);
  return figures;
}

double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

std::optional<double> largest_miss(const std::vector<FittedFigure>& figures) {
  std::optional<double> largest;
  for (const FittedFigure& one : figures)
    if (one.left_out) largest = std::max(largest.value_or(0), miss(*one.left_out, one.measured));
  return largest;
}

}  // namespace ringside::tools::calibrate
