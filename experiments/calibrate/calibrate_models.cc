#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "core/observe/row.h"
#include "core/plan/lone_training.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/calibrate/timed_flats.h"
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

/// Dtype, class, operations, bytes.
using OpKey = std::tuple<std::string, OpClass, double, double>;
/// The mean times of operations.
using OpTimes = std::map<OpKey, double>;

OpTimes mean_times(const std::vector<std::vector<TimedOp>>& ranks) {
  std::map<OpKey, std::vector<double>> times;
  for (const auto& ops : ranks)
    for (const TimedOp& op : ops)
      times[{figures_dtype(op.cost), op.cost.kind, op.cost.operations, op.cost.bytes}].push_back(
          op.seconds + op.before);
  OpTimes out;
  for (const auto& [key, all] : times)
    out[key] = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  return out;
}

/// The operations of a training. In a step of many operations some are always held up, which
/// medians of single operations do not show, and of several ranks the slowest counts: so the
/// operations get shares of what a step of all ranks takes.
OpTimes times_in_steps(const std::vector<TimedStep>& ranks) {
  std::vector<std::vector<TimedOp>> ops;
  double sum = 0;
  for (const TimedStep& rank : ranks) {
    ops.push_back(rank.ops);
    for (const TimedOp& op : rank.ops) sum += op.seconds + op.before;
  }
  const double longer = step_of_all(ranks) * static_cast<double>(ranks.size()) / sum;
  OpTimes out = mean_times(ops);
  for (auto& [key, seconds] : out) seconds *= longer;
  return out;
}

}  // namespace

void measure_models(sim::ClusterSpec& cluster, const std::vector<RunPlan>& runs,
                    std::int64_t threads) {
  // Of each training: longer ones are more precise, and caches and clocks are warm by then.
  constexpr double warming = 0.1, timed = 0.25;  // seconds
  constexpr int rounds = 3;
  struct Training {
    RunPlan plan;
    double step = 0;                    // seconds, about
    std::vector<TimedStep> quietest{};  // of each rank
  };
  std::map<std::pair<std::string, int>, Training> trainings;
  for (const RunPlan& run : runs) {
    const auto at_once = static_cast<int>(std::min<std::int64_t>(run.world, cluster.device.cores));
    trainings.try_emplace({lone_training_name(run), at_once}, Training{lone_training(run)});
  }
  // Other work on the machine, which only makes steps longer, lasts for seconds: the rounds of a
  // training lie apart.
  for (int round = 0; round < rounds; ++round)
    for (auto& [key, training] : trainings) {
      if (round == 0)
        training.step =
            quantiles(
                time_training(training.plan, threads, {.warmup = 1, .steps = 2}).front().seconds)
                .median;
      auto ranks = time_training(training.plan, threads,
                                 {.ranks = key.second,
                                  .warmup = steps_in(warming, training.step, 1, 30),
                                  .steps = steps_in(timed, training.step, 3, 150)});
      if (training.quietest.empty() || step_of_all(ranks) < step_of_all(training.quietest))
        training.quietest = std::move(ranks);
    }
  for (const auto& [key, training] : trainings) {
    const auto& [name, ranks] = key;
    OpTimes times = times_in_steps(training.quietest);
    // What a training does itself is known better from its steps.
    times.merge(mean_times(time_flats(training.plan, threads, ranks)));
    for (const auto& [op, seconds] : times) {
      const auto& [dtype, kind, operations, bytes] = op;
      cluster.timed.push_back(
          {name, ranks, dtype, std::string(name_of(kind)), operations, bytes, 1e6 * seconds});
    }
  }
}

}  // namespace ringside
