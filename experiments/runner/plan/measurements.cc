#include "experiments/runner/plan/measurements.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/counted.h"
#include "core/observe/run_record.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/plan/one_run.h"
#include "experiments/runner/registry/rank_devices.h"
#include "peer/schemes/ddp.h"

namespace ringside::runner {
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
  config.optimizer = {.kind = "sgd", .lr = 1e-6};  // has no state and cannot diverge
  config.scheme_options["ddp"] = peer::DdpOptions{.overlap = false};
  config.hosts = run.hosts;
  config.in_job = !run.homes.empty() && run.world == setting.workers;
  RunPlan plan = plan_run(config, find_scheme("ddp"), setting.workers, 0);
  plan.id = fmt::format("speeds-w{}", setting.workers);
  if (config.in_job) {
    plan.homes.assign(run.homes.begin(), run.homes.begin() + run.world);
    for (RankPlan& rank : plan.ranks)
      rank.ordinal = run.ranks[static_cast<std::size_t>(rank.rank)].ordinal;
    set_environments(plan);
  }
  return plan;
}

std::vector<RunPlan> missing_measurements(const std::vector<RunPlan>& runs) {
  std::vector<std::pair<SpeedSetting, const RunPlan*>> known;
  for (const RunPlan& run : runs) {
    if (!waits_for_speeds(run)) continue;
    const SpeedSetting setting = speed_setting(run);
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const auto& one) { return one.first == setting; });
    if (same == known.end())
      known.emplace_back(setting, &run);
    else if (run.world > same->second->world)
      same->second = &run;  // a definition has one rank, which does not show the hosts of workers
  }
  std::vector<RunPlan> out;
  for (const auto& [setting, run] : known) out.push_back(plan_measurement(*run));
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
  std::string out = fmt::format("world {}, {} a worker: {}", setting.workers,
                                counted(setting.samples, "sample"), text_of(medians));
  if (speeds == medians) return out;
  const bool all_alike =
      std::adjacent_find(speeds.begin(), speeds.end(), std::not_equal_to<>()) == speeds.end();
  return out + "; single steps of one worker differ as much, so they count as " +
         (all_alike ? "equally fast" : text_of(speeds));
}

}  // namespace ringside::runner
