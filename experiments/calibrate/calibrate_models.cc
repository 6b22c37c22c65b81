#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "core/plan/lone_training.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/calibrate/timed_training.h"

namespace ringside {
namespace {

/// Dtype, class, operations and bytes.
using Key = std::tuple<std::string, OpClass, double, double>;
using Times = std::map<Key, double>;  // seconds, mean over all operations of the same key

/// The median of what steps would take in which every rank waits for the slowest.
double step_of_all(const std::vector<TimedStep>& ranks) {
  std::vector<double> slowest = ranks.front().seconds;
  for (const TimedStep& rank : ranks)
    std::transform(slowest.begin(), slowest.end(), rank.seconds.begin(), slowest.begin(),
                   [](double a, double b) { return std::max(a, b); });
  return median_of(std::move(slowest));
}

/// In a step of many operations some are always held up, which medians of single operations do not
/// show, and of several ranks the slowest counts: so the operations get shares of what a step of
/// all ranks takes.
Times times_of(const std::vector<TimedStep>& ranks) {
  std::map<Key, std::vector<double>> seconds;
  double sum = 0;
  for (const TimedStep& rank : ranks)
    for (const TimedOp& op : rank.ops) {
      seconds[{figures_name(op.cost), op.cost.kind, op.cost.operations, op.cost.bytes}].push_back(
          op.seconds + op.before);
      sum += op.seconds + op.before;
    }
  const double longer = step_of_all(ranks) * static_cast<double>(ranks.size()) / sum;
  Times out;
  for (const auto& [key, all] : seconds)
    out[key] =
        longer * std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  return out;
}

/// As many steps as take `seconds`, within limits.
std::int64_t steps_in(double seconds, double step, std::int64_t least, std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(seconds / step), least, most);
}

/// The share of an operation's time for which the memory moves data, from the times as long that
/// the operation takes while all cores do it at once: an operation that does nothing else would
/// take cores / streams times as long.
double memory_share(double times_as_long, const sim::DeviceSpec& device) {
  const double most = static_cast<double>(device.cores) / device.streams;
  return most > 1 ? std::clamp((times_as_long - 1) / (most - 1), 0.0, 1.0) : 0;
}

}  // namespace

void measure_models(sim::ClusterSpec& cluster, const std::vector<RunPlan>& runs,
                    std::int64_t threads) {
  // Of each training: longer ones are more precise, and caches and clocks are warm by then.
  constexpr double warming = 0.1, timed = 0.25;  // seconds
  const sim::DeviceSpec& device = cluster.device;
  const auto cores = static_cast<int>(device.cores);
  std::map<std::string, const RunPlan*> trainings;
  for (const RunPlan& run : runs) trainings.emplace(lone_training_name(run), &run);
  for (const auto& [name, run] : trainings) {
    const RunPlan plan = lone_training(*run);
    const double step = median_of(time_training(plan, threads, {.steps = 3}).front().seconds);
    const auto times = [&](int ranks) {
      return times_of(time_training(plan, threads,
                                    {.ranks = ranks,
                                     .warmup = steps_in(warming, step, 2, 30),
                                     .steps = steps_in(timed, step, 5, 150)}));
    };
    const Times alone = times(1), together = cores > 1 ? times(cores) : alone;
    for (const auto& [key, seconds] : alone) {
      const auto& [dtype, kind, operations, bytes] = key;
      cluster.timed.push_back(
          {name, dtype, std::string(name_of(kind)), operations, bytes, 1e6 * seconds,
           memory_share(together.at(key) / seconds * device.busy_share, device)});
    }
  }
}

}  // namespace ringside
