// The speeds of workers on real devices, as a measurement before the run found them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside {

/// The quantities, besides the machine, on which the speeds of workers depend. Schemes, optimizers,
/// seeds and repeats are left out: runs that differ only in these must have equal shares, so that
/// they train the same.
struct SpeedSetting {
  int workers = 0;           // that compute at once
  std::int64_t samples = 0;  // in each worker's micro-batch
  ModelConfig model;
  DataConfig data;
  DeviceConfig device;
  Precision precision = Precision::fp32;
  Recompute recompute = Recompute::none;
  bool operator==(const SpeedSetting&) const = default;
};

Fields fields_of(SpeedSetting& setting);

/// The setting whose speeds decide the shares of a run. Its micro-batches have the samples of equal
/// shares.
SpeedSetting speed_setting(const RunPlan& plan);

/// The seconds that forward and backward of one worker took in each measured step.
struct WorkerTimes {
  std::vector<double> seconds;
};

Fields fields_of(WorkerTimes& times);

struct MeasuredSpeeds {
  SpeedSetting setting;
  std::vector<WorkerTimes> workers;  // one for each of setting.workers
};

Fields fields_of(MeasuredSpeeds& speeds);

/// Throws Error unless every worker has times, all of them positive.
void check_times(const MeasuredSpeeds& speeds);

/// The speeds that were measured for the setting; null if there are none. The result lives as long
/// as `measured`.
const MeasuredSpeeds* find_speeds(const std::vector<MeasuredSpeeds>& measured,
                                  const SpeedSetting& setting);

/// Whether the shares of the plan wait for a measurement of the workers' speeds
/// (Shares::speed on real devices). Such a plan divides a step as for workers of equal speed.
inline bool waits_for_speeds(const RunPlan& plan) { return plan.train.shares == Shares::speed; }

}  // namespace ringside
