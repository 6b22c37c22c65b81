#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "core/observe/row.h"
#include "core/plan/lone_training.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/calibrate/timed_training.h"

namespace ringside {
namespace {

/// As many steps as take `seconds`, within limits.
std::int64_t steps_in(double seconds, double step, std::int64_t least, std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(seconds / step), least, most);
}

/// The median of what steps would take in which every rank waits for the slowest.
double step_of_all(const std::vector<TimedStep>& ranks) {
  std::vector<double> slowest = ranks.front().seconds;
  for (const TimedStep& rank : ranks)
    std::transform(slowest.begin(), slowest.end(), rank.seconds.begin(), slowest.begin(),
                   [](double a, double b) { return std::max(a, b); });
  return quantiles(std::move(slowest)).median;
}

/// Adds the operations of a training. In a step of many operations some are always held up, which
/// medians of single operations do not show, and of several ranks the slowest counts: so the
/// operations get shares of what a step of all ranks takes.
void add_timed(sim::ClusterSpec& cluster, const std::string& training,
               const std::vector<TimedStep>& ranks) {
  std::map<std::tuple<std::string, OpClass, double, double>, std::vector<double>> times;
  double sum = 0;
  for (const TimedStep& rank : ranks)
    for (const TimedOp& op : rank.ops) {
      const double seconds = op.seconds + op.before;
      times[{figures_dtype(op.cost), op.cost.kind, op.cost.operations, op.cost.bytes}].push_back(
          seconds);
      sum += seconds;
    }
  const double longer = step_of_all(ranks) * static_cast<double>(ranks.size()) / sum;
  for (const auto& [key, of_all] : times) {
    const auto& [dtype, kind, operations, bytes] = key;
    const double mean =
        std::accumulate(of_all.begin(), of_all.end(), 0.0) / static_cast<double>(of_all.size());
    cluster.timed.push_back({training, static_cast<std::int64_t>(ranks.size()), dtype,
                             std::string(name_of(kind)), operations, bytes, 1e6 * longer * mean});
  }
}

}  // namespace

void measure_models(sim::ClusterSpec& cluster, const std::vector<RunPlan>& runs,
                    std::int64_t threads) {
  // Of each training: longer ones are more precise, and caches and clocks are warm by then.
  constexpr double warming = 0.1, timed = 0.3;  // seconds
  std::set<std::pair<std::string, int>> known;
  for (const RunPlan& run : runs) {
    const std::string name = lone_training_name(run);
    const auto at_once = static_cast<int>(std::min<std::int64_t>(run.world, cluster.device.cores));
    if (!known.emplace(name, at_once).second) continue;
    const RunPlan plan = lone_training(run);
    const double step =
        quantiles(time_training(plan, threads, {.steps = 3}).front().seconds).median;
    add_timed(cluster, name,
              time_training(plan, threads,
                            {.ranks = at_once,
                             .warmup = steps_in(warming, step, 2, 30),
                             .steps = steps_in(timed, step, 5, 150)}));
  }
}

}  // namespace ringside
