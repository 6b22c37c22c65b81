#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/plan/lone_training.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/calibrate/calibrate.h"

namespace ringside::tools::calibrate {
namespace {

double step_of(const RunRecord& row) { return 1e-3 * row.step_ms.median; }

/// As many steps as take `seconds`, within limits.
std::int64_t steps_in(double seconds, double step, std::int64_t least, std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(seconds / step), least, most);
}

/// Dtype, class, operations, bytes.
using OpKey = std::tuple<std::string, std::string, double, double>;
struct MeanTime {
  double us = 0;
  double count = 0;  // number of times that a step has the operation
};
using OpTimes = std::map<OpKey, MeanTime>;

OpTimes mean_times(const RunRecord& row, std::vector<sim::TimedOperation> RankRecord::*ops) {
  OpTimes out;
  for (const RankRecord& rank : row.ranks)
    for (const sim::TimedOperation& op : rank.*ops) {
      MeanTime& mean = out[{op.dtype, op.kind, op.operations, op.bytes}];
      mean.us += op.us;
      ++mean.count;
    }
  for (auto& [key, mean] : out) {
    mean.us /= mean.count;
    mean.count /= static_cast<double>(row.ranks.size());
  }
  return out;
}

/// The operations of a training. In a step of many operations some are always delayed, which
/// medians of single operations do not show, and the slowest of several ranks decides. So the
/// operations get shares of the time of a step of all ranks, `step` seconds.
OpTimes times_in_steps(const RunRecord& row, double step) {
  OpTimes out = mean_times(row, &RankRecord::operations);
  double sum = 0;
  for (const auto& [key, mean] : out) sum += mean.count * mean.us;
  for (auto& [key, mean] : out) mean.us *= 1e6 * step / sum;
  return out;
}

/// Copies, sums and updates of pieces, which are outside of steps.
OpTimes times_of_pieces(const RunRecord& row) {
  OpTimes out = mean_times(row, &RankRecord::pieces);
  for (auto& [key, mean] : out) mean.count = 0;
  return out;
}

/// The run of median speed among the undisturbed ones: the machine is faster at one time than at
/// another, for later runs as for these.
const RunRecord& middle(const std::vector<RunRecord>& rows) {
  std::vector<const RunRecord*> quiet, all;
  for (const RunRecord& row : rows) {
    all.push_back(&row);
    if (disturbance(row).empty()) quiet.push_back(&row);
  }
  auto& chosen = quiet.empty() ? all : quiet;
  const auto at = chosen.begin() + static_cast<std::ptrdiff_t>((chosen.size() - 1) / 2);
  std::nth_element(chosen.begin(), at, chosen.end(), [](const RunRecord* a, const RunRecord* b) {
    return step_of(*a) < step_of(*b);
  });
  return **at;
}

/// Runs of one training on some number of ranks at once.
struct Rounds {
  std::vector<RunRecord> timed, plain;  // plain: whose operations were not timed
};

/// The times of operations that these runs measured.
OpTimes times_of(const Rounds& all) {
  const std::vector<RunRecord>& rounds = all.timed;
  OpTimes out =
      times_in_steps(middle(rounds), step_of(middle(all.plain.empty() ? rounds : all.plain)));
  // Operations of the training itself keep their times from steps.
  out.merge(times_of_pieces(rounds.front()));
  return out;
}

/// For each operation, the part of its time `alone` in which it needs all of the memory's
/// bandwidth: the time by which `ranks` ranks take longer `together`, where cores that are all busy
/// have `busy_share` of their speed even without contention for memory.
std::map<OpKey, double> memory_parts(const OpTimes& alone, const OpTimes& together, int ranks,
                                     double busy_share) {
  const double each = ranks - 1 / busy_share;  // additional time for a microsecond of memory
  std::map<OpKey, double> out;
  double step = 0, longer = 0, parts = 0;
  for (const auto& [op, mean] : alone) {
    const auto found = together.find(op);
    if (found == together.end()) continue;
    const double more = found->second.us - mean.us / busy_share;
    const double part = out[op] = std::clamp(more / each, 0.0, mean.us);
    step += mean.count * mean.us;
    longer += mean.count * more / each;
    parts += mean.count * part;
  }
  // Ranks also take cores from each other, for instance to read samples. Time that no operation
  // accounts for, or that only some have by chance, is spread over all.
  for (auto& [op, part] : out) {
    const MeanTime& mean = alone.at(op);
    if (mean.count == 0) continue;
    if (longer < parts)
      part *= parts > 0 ? std::max(0.0, longer) / parts : 0;
    else if (step > parts)  // rounded, the sum may be more than the whole
      part = std::min(mean.us,
                      part + std::min(1.0, (longer - parts) / (step - parts)) * (mean.us - part));
  }
  return out;
}

}  // namespace

RunRecord made(RunPlan plan, const CalibrationSite& site, const std::string& what) {
  plan.hosts = {.workers = WorkerPlacement::spread, .between = site.between};
  site.place(plan);
  runner::RunOutcome outcome = runner::run_plan(plan, site.start, [](const runner::Step&) {});
  if (outcome.interrupted) throw Error("interrupted");
  if (outcome.row.status != "ok") throw Error("{}: {}", what, outcome.row.error);
  return std::move(outcome.row);
}

RunRecord timed_run(const RunPlan& training, int ranks, const Repetition& repetition,
                    const CalibrationSite& site) {
  RunPlan plan = training;
  plan.id = "timing";
  plan.purpose = repetition.timed ? Purpose::timing : Purpose::asked;
  plan.scheme = "independent";
  plan.options = runner::default_options(plan.scheme);
  plan.promise = Promise::own_algorithm;
  plan.world = ranks * site.hosts;
  plan.repeat = repetition.repeat;
  plan.train.warmup = repetition.warmup;
  plan.train.steps = repetition.warmup + repetition.steps;
  plan.train.global_batch *= plan.world;
  plan.ranks.clear();
  for (int r = 0; r < plan.world; ++r) plan.ranks.push_back({r, r, -1});
  return made(std::move(plan), site,
              fmt::format("a training of model {} that is timed", training.model.kind));
}

std::vector<sim::TimedOperation> measure_models(sim::ClusterSpec& cluster,
                                                const std::vector<RunPlan>& runs,
                                                const CalibrationSite& site) {
  struct Training {
    RunPlan plan;
    int ranks = 1;                   // the most that compute so at once
    double step = 0;                 // seconds, about
    std::map<int, Rounds> rounds{};  // by the number of ranks
  };
  const TimedTrainings& lengths = site.trainings;
  std::map<std::string, Training> trainings;
  const auto cores = static_cast<int>(cluster.device.cores);
  const auto most = static_cast<int>(std::min(cluster.device.cores, site.slots));
  for (const RunPlan& run : runs) {
    auto& training =
        trainings.try_emplace(lone_training_name(run), Training{lone_training(run)}).first->second;
    // Next to a single rank a server computes, or its own communicator.
    training.ranks = std::max(
        training.ranks, std::clamp(static_cast<int>(run.ranks.size()), std::min(2, most), most));
  }
  // Other work on the machine lasts for seconds: the rounds of a training lie apart.
  for (int round = 0; round < lengths.rounds; ++round)
    for (auto& [name, training] : trainings)
      for (const int ranks : std::set{1, training.ranks}) {
        if (training.step == 0)
          training.step = step_of(timed_run(training.plan, 1, {1, 2, 1}, site));
        const std::int64_t warmup = steps_in(lengths.warming_s, training.step, 1, 30);
        const std::int64_t steps = steps_in(lengths.timed_s, training.step, 3, 150);
        Rounds& made = training.rounds[ranks];
        made.timed.push_back(timed_run(training.plan, ranks, {warmup, steps, round}, site));
        if (lengths.plain_steps)
          made.plain.push_back(
              timed_run(training.plan, ranks, {warmup, steps, round, false}, site));
      }
  std::vector<sim::TimedOperation> steps;
  for (const auto& [name, training] : trainings) {
    const OpTimes alone = times_of(training.rounds.at(1));
    std::map<OpKey, double> memory;
    if (training.ranks > 1)
      memory = memory_parts(alone, times_of(training.rounds.at(training.ranks)), training.ranks,
                            training.ranks == cores ? cluster.device.busy_share : 1);
    for (const auto& [op, mean] : alone) {
      const auto& [dtype, kind, operations, bytes] = op;
      cluster.timed.push_back({name, dtype, kind, operations, bytes, mean.us, memory[op]});
      steps.insert(steps.end(), std::max<std::size_t>(1, std::llround(mean.count)),
                   cluster.timed.back());
    }
  }
  return steps;
}

}  // namespace ringside::tools::calibrate
