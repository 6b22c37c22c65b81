#include "experiments/runner/run/measure_speeds.h"

#include "core/base/error.h"

namespace ringside::runner {
namespace {

/// The times of forward and backward alone: the rest of a step depends on the scheme.
MeasuredSpeeds times_of(const RunRecord& row) {
  constexpr auto compute = static_cast<std::size_t>(Activity::compute);
  MeasuredSpeeds out{speed_setting(row.plan), {}};
  for (const RankRecord& rank : row.ranks) {
    WorkerTimes& times = out.workers.emplace_back();
    for (auto s = static_cast<std::size_t>(row.plan.train.warmup); s < rank.steps.size(); ++s)
      times.seconds.push_back(rank.steps[s].by_activity[compute]);
  }
  return out;
}

Error failure(const RunPlan& plan, const std::string& cause) {
  return Error(
      "train.shares = 'speed': the speeds of {} workers cannot be measured: {}; mend that, or give "
      "every worker a weight, as in train.shares = [3, 1]",
      plan.world, cause);
}

}  // namespace

std::optional<SpeedMeasurement> measure_speeds(const RunPlan& plan, const RunMaker& maker) {
  std::optional<SpeedMeasurement> quietest;
  double least_lost = 0;
  for (int attempt = 0; attempt < maker.most_attempts; ++attempt) {
    if (maker.interrupted()) return {};
    const RunOutcome outcome = maker.make(plan, [](const Step&) {});
    if (outcome.interrupted) return {};
    const RunRecord& row = outcome.row;
    if (row.status != "ok") throw failure(plan, row.error);
    if (!quietest || lost_share(row) < least_lost) {
      quietest = {times_of(row), disturbance(row)};
      try {
        check_times(quietest->speeds);
      } catch (const Error& error) {
        throw failure(plan, error.what());
      }
      least_lost = lost_share(row);
    }
    if (disturbance(row).empty()) break;
  }
  return quietest;
}

}  // namespace ringside::runner
