#include "core/plan/measured_speeds.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace ringside {

Fields fields_of(SpeedSetting& setting) {
  return {{"workers", &setting.workers},         {"samples", &setting.samples},
          {"model", fields_of(setting.model)},   {"data", fields_of(setting.data)},
          {"device", fields_of(setting.device)}, {"precision", &setting.precision},
          {"recompute", &setting.recompute}};
}

SpeedSetting speed_setting(const RunPlan& plan) {
  const TrainConfig& train = plan.train;
  SpeedSetting out{.workers = plan.world,
                   .samples = train.global_batch / (plan.world * train.accumulation),
                   .model = plan.model,
                   .data = plan.data,
                   .device = plan.device,
                   .precision = train.precision,
                   .recompute = train.recompute};
  if (!train.weights.empty()) {
    out.workers = static_cast<int>(train.weights.size());
    out.samples = *std::min_element(train.weights.begin(), train.weights.end());
  }
  out.device.cluster.clear();  // names a prediction of the run, which changes nothing in the run
  return out;
}

Fields fields_of(WorkerTimes& times) { return {{"seconds", &times.seconds}}; }

Fields fields_of(MeasuredSpeeds& speeds) {
  return {{"setting", fields_of(speeds.setting)}, {"workers", Structs(&speeds.workers)}};
}

void check_times(const MeasuredSpeeds& speeds) {
  if (speeds.workers.empty() || static_cast<int>(speeds.workers.size()) != speeds.setting.workers)
    throw Error("the speeds of {} workers have times of {}", speeds.setting.workers,
                speeds.workers.size());
  const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds > 0; };
  for (std::size_t w = 0; w < speeds.workers.size(); ++w) {
    const std::vector<double>& seconds = speeds.workers[w].seconds;
    if (seconds.empty() || !std::all_of(seconds.begin(), seconds.end(), is_time))
      throw Error("the steps of worker {} have no measurable times", w);
  }
}

const MeasuredSpeeds* find_speeds(const std::vector<MeasuredSpeeds>& measured,
                                  const SpeedSetting& setting) {
  const auto found = std::find_if(measured.begin(), measured.end(), [&](const MeasuredSpeeds& one) {
    return one.setting == setting;
  });
  return found == measured.end() ? nullptr : &*found;
}

}  // namespace ringside
