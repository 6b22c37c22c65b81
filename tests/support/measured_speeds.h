// Made-up speeds of workers.
#pragma once

#include <vector>

#include "core/plan/measured_speeds.h"

namespace ringside::testing {

/// The speeds for which `waiting` waits, if worker w needs seconds[w] for a step, give or take the
/// share `spread`.
inline MeasuredSpeeds made_up_speeds(const RunPlan& waiting, const std::vector<double>& seconds,
                                     double spread = 0.01) {
  MeasuredSpeeds out{speed_setting(waiting), {}};
  for (const double one : seconds) {
    WorkerTimes& worker = out.workers.emplace_back();
    for (int step = 0; step < 12; ++step)
      worker.seconds.push_back(one * (1 + spread * (step % 3 - 1)));
  }
  return out;
}

}  // namespace ringside::testing
