#include "experiments/plan/measurements.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/observe/row.h"
#include "experiments/config/config.h"
#include "experiments/plan/one_run.h"
#include "peer/ddp.h"

namespace ringside {
namespace {

/// A tenth of the measured steps is one step.
constexpr std::int64_t warmup = 3, measured_steps = 12;

/// Quantiles of the seconds of each worker's steps.
std::vector<Quantiles> quantiles_of(const MeasuredSpeeds& measured) {
  std::vector<Quantiles> out;
  for (const WorkerTimes& worker : measured.workers) out.push_back(quantiles(worker.seconds));
  return out;
}

std::string text_of(const std::vector<double>& speeds) {
  return fmt::format("{:.1f} samples/s", fmt::join(speeds, ", "));
}

}  // namespace

RunPlan plan_measurement(const RunPlan& run) {
  const SpeedSetting setting = speed_setting(run);
  ExperimentConfig config;
  config.name = run.experiment;
  config.model = setting.model;
  config.data = setting.data;
  config.device = setting.device;
  config.train.steps = warmup + measured_steps;
  config.train.warmup = warmup;
  config.train.global_batch = setting.workers * setting.samples;
  config.train.recompute = setting.recompute;
  config.train.precision = setting.precision;
  config.train.timeout_s = run.train.timeout_s;
  config.optimizer = {.kind = "sgd", .lr = 1e-6};  // has no state, and cannot diverge
  config.scheme_options["ddp"] = peer::DdpOptions{.overlap = false};
  RunPlan plan = plan_run(config, find_scheme("ddp"), setting.workers, 0);
  plan.id = fmt::format("speeds-w{}", setting.workers);
  return plan;
}

std::vector<RunPlan> missing_measurements(const std::vector<RunPlan>& runs) {
  std::vector<RunPlan> out;
  std::vector<SpeedSetting> known;
  for (const RunPlan& run : runs) {
    if (!waits_for_speeds(run)) continue;
    const SpeedSetting setting = speed_setting(run);
    if (std::find(known.begin(), known.end(), setting) != known.end()) continue;
    known.push_back(setting);
    out.push_back(plan_measurement(run));
  }
  return out;
}

std::vector<double> speeds_of(const MeasuredSpeeds& measured) {
  const std::vector<Quantiles> times = quantiles_of(measured);
  std::vector<std::size_t> left(times.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::stable_sort(left.begin(), left.end(),
                   [&](std::size_t a, std::size_t b) { return times[a].median < times[b].median; });
  std::vector<double> speeds(times.size());
  while (!left.empty()) {
    const Quantiles fastest = times[left.front()];
    const auto others = std::stable_partition(left.begin(), left.end(), [&](std::size_t worker) {
      return times[worker].p10 <= fastest.p90;
    });
    double seconds = 0;
    for (auto worker = left.begin(); worker != others; ++worker) seconds += times[*worker].median;
    const auto alike = static_cast<double>(others - left.begin());
    for (auto worker = left.begin(); worker != others; ++worker)
      speeds[*worker] = alike * static_cast<double>(measured.setting.samples) / seconds;
    left.erase(left.begin(), others);
  }
  return speeds;
}

std::string text_of(const MeasuredSpeeds& measured) {
  const SpeedSetting& setting = measured.setting;
  std::vector<double> medians;
  for (const Quantiles& times : quantiles_of(measured))
    medians.push_back(static_cast<double>(setting.samples) / times.median);
  const std::vector<double> speeds = speeds_of(measured);
  std::string out = fmt::format("world {}, {} samples a worker: {}", setting.workers,
                                setting.samples, text_of(medians));
  if (speeds == medians) return out;
  const bool all_alike =
      std::adjacent_find(speeds.begin(), speeds.end(), std::not_equal_to<>()) == speeds.end();
  return out + "; single steps of one worker differ as much, so they count as " +
         (all_alike ? "equally fast" : text_of(speeds));
}

}  // namespace ringside
