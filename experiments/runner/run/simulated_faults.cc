#include "experiments/runner/run/simulated_faults.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/plan/faults.h"
#include "core/plan/places.h"
#include "core/plan/saved_steps.h"
#include "experiments/runner/run/cost_of_checkpoints.h"
#include "experiments/runner/run/going_on.h"

namespace ringside::runner {
namespace {

constexpr double seconds_of_hour = 3600;
constexpr int draws = 256;  // of failures over faults.hours

/// The times at which a simulated run had done its steps, from its beginning on, as far as its
/// record knows them: without evaluations.
class StepEnds {
 public:
  explicit StepEnds(const RunRecord& row)
      : every_(writes_checkpoints(row.plan) ? row.plan.checkpoint.every : 0),
        times_(times_of_checkpoint(row)) {
    std::vector<double> slowest;
    for (const RankRecord& rank : row.ranks)
      for (std::size_t s = 0; s < rank.steps.size(); ++s) {
        if (slowest.size() <= s) slowest.push_back(0);
        slowest[s] = std::max(slowest[s], rank.steps[s].total);
      }
    ends_ = {0};
    for (std::size_t s = 0; s < slowest.size(); ++s) {
      const auto done = static_cast<std::int64_t>(s) + 1;
      const bool saves = every_ > 0 && (done % every_ == 0 || done == row.plan.train.steps);
      ends_.push_back(ends_.back() + slowest[s] + (saves ? times_.stall_s : 0));
    }
  }

  /// After so many steps, and the copy of their checkpoint.
  double at(std::int64_t done) const {
    return ends_[std::min(ends_.size() - 1, static_cast<std::size_t>(done))];
  }
  /// The steps of the newest checkpoint that is whole after `done` steps; 0: none.
  std::int64_t newest(std::int64_t done) const {
    if (every_ == 0) return 0;
    std::int64_t from = done / every_ * every_;
    while (from > 0 && at(from) + times_.write_s > at(done)) from -= every_;
    return from;
  }

 private:
  std::int64_t every_;
  CheckpointTimes times_;
  std::vector<double> ends_;
};

/// Faults of the list that strike all ranks: kills that start the run again, and stops of servers,
/// for which all workers wait.
std::vector<std::pair<Fault, std::string>> faults_of_all(const RunPlan& plan) {
  std::map<int, std::int64_t> lost = lost_on_purpose(plan);
  std::vector<std::pair<Fault, std::string>> out;
  for (const std::string& text : plan.faults.plan) {
    const Fault fault = fault_from(text);
    const bool kills = fault.kind == Fault::Kind::kill;
    if (struck_rank(plan, fault) < 0 || fault.step > plan.train.steps) continue;
    if (kills && !fault.server && lost.contains(fault.number)) continue;
    if (kills || (fault.server && fault.kind == Fault::Kind::stop)) out.emplace_back(fault, text);
  }
  std::ranges::stable_sort(out, {}, [](const auto& one) { return one.first.step; });
  return out;
}

/// Lets the faults of the list strike the run whose steps have been simulated.
void strike(RunRecord& row) {
  const RunPlan& plan = row.plan;
  const StepEnds ends(row);
  const double restart_s = plan.cluster->failures.restart_s;
  const double read_s = writes_checkpoints(plan) ? seconds_to_read(row) : 0;
  double more_s = 0;
  for (const auto& [fault, text] : faults_of_all(plan)) {
    if (fault.kind == Fault::Kind::stop) {
      more_s += fault.amount;
      continue;
    }
    const int rank = struck_rank(plan, fault);
    const std::string error =
        fmt::format("rank {} ({}) was killed on purpose after step {} ({})", rank,
                    plan.ranks[static_cast<std::size_t>(rank)].role(), fault.step, text);
    if (static_cast<std::int64_t>(row.restarts.size()) == plan.faults.restarts) {
      RunRecord failed = failed_row(plan, error);
      failed.restarts = std::move(row.restarts);
      row = std::move(failed);
      return;
    }
    const std::int64_t from = ends.newest(fault.step);
    const double down_s = restart_s + (from > 0 ? read_s : 0) + ends.at(from + 1) - ends.at(from);
    row.restarts.push_back({error, from, fault.step - from, down_s});
    more_s += down_s + ends.at(fault.step) - ends.at(from + 1);
  }
  add_cost_of_faults(row, ends.at(plan.train.steps) - ends.at(1) + more_s);
}

/// The failures of parts, each of which has some ranks: parts with the same consequence together.
void add_failures(const RunPlan& plan, const std::vector<std::vector<int>>& parts, double mtbf_h,
                  std::map<std::int64_t, double>& by_workers) {
  if (mtbf_h == 0) return;
  for (const std::vector<int>& ranks : parts) {
    const auto workers = static_cast<std::int64_t>(ranks.size());
    const bool survived = workers <= plan.expendable && std::ranges::all_of(ranks, [&](int rank) {
                            return may_be_lost(plan, rank);
                          });
    by_workers[survived ? workers : 0] += 1 / (mtbf_h * seconds_of_hour);
  }
}

/// The ranks of each part that `part_of` gives a number; none where that is negative.
template <class PartOf>
std::vector<std::vector<int>> parts_of(const RunPlan& plan, PartOf part_of) {
  std::map<std::int64_t, std::vector<int>> parts;
  for (const RankPlan& rank : plan.ranks)
    if (const std::int64_t part = part_of(rank.rank); part >= 0) parts[part].push_back(rank.rank);
  std::vector<std::vector<int>> out;
  for (auto& [number, ranks] : parts) out.push_back(std::move(ranks));
  return out;
}

sim::FailingRun failing_run(const RunRecord& row) {
  const RunPlan& plan = row.plan;
  const CheckpointTimes times = times_of_checkpoint(row);
  const double restart_s = plan.cluster->failures.restart_s;
  const double read_s = writes_checkpoints(plan) ? seconds_to_read(row) : 0;
  return {.workers = plan.world,
          .step_s = seconds_of_step(row),
          .every = writes_checkpoints(plan) ? plan.checkpoint.every : 0,
          .stall_s = times.stall_s,
          .write_s = times.write_s,
          .restart_s = restart_s + read_s,
          .replace_s = restart_s,
          .expendable = plan.expendable,
          .failures = failures_of(plan)};
}

sim::FailureCost cost_of(const RunPlan& plan, const sim::FailingRun& run) {
  const double seconds = plan.faults.hours * seconds_of_hour;
  return draw_failures(run, seconds, static_cast<std::uint64_t>(plan.faults.seed), draws);
}

/// The figures of a long run of these steps.
void predict(RunRecord& row) {
  const RunPlan& plan = row.plan;
  sim::FailingRun run = failing_run(row);
  double fatal_per_s = 0, all_per_s = 0;
  for (const sim::FailureKind& kind : run.failures) {
    all_per_s += kind.per_s;
    if (kind.workers == 0) fatal_per_s += kind.per_s;
  }
  if (all_per_s == 0 || run.step_s <= 0) return;
  const auto add = [&](const char* name, const char* unit, double value) {
    row.figures.push_back({name, unit, value, value});
  };
  const double samples_per_s = static_cast<double>(plan.train.global_batch) / run.step_s;
  const sim::FailureCost cost = cost_of(plan, run);
  if (fatal_per_s > 0) add("time between failures", "h", 1 / fatal_per_s / seconds_of_hour);
  add("predicted goodput", "samples/s", cost.goodput * samples_per_s);
  add("predicted goodput, share", "", cost.goodput);
  if (!plan.faults.rate.empty()) {
    add("predicted restarts", "", cost.restarts);
    add("predicted lost steps", "", cost.lost_steps);
    add("predicted lost workers", "", cost.lost_workers);
    if (cost.restarts > 0) add("predicted time to go on", "s", cost.down_s + run.step_s);
  }
  if (fatal_per_s == 0) return;
  add_best_interval(row, 1 / fatal_per_s);
  run.every = best_every(row, 1 / fatal_per_s);
  if (run.every > 0)
    add("predicted goodput at the best interval", "samples/s",
        cost_of(plan, run).goodput * samples_per_s);
}

}  // namespace

std::vector<sim::FailureKind> failures_of(const RunPlan& plan) {
  std::map<std::int64_t, double> by_workers;
  if (plan.faults.rate.empty() || plan.faults.rate == rate_of_cluster) {
    const sim::FailureSpec& failures = plan.cluster->failures;
    const std::int64_t devices = plan.cluster->devices;
    const auto device = [&](int rank) {
      const sim::Place place = place_of(plan, rank);
      return place.device < 0 ? std::int64_t{-1} : place.machine * devices + place.device;
    };
    const auto machine = [&](int rank) { return std::int64_t{place_of(plan, rank).machine}; };
    add_failures(plan, parts_of(plan, device), failures.device_mtbf_h, by_workers);
    add_failures(plan, parts_of(plan, machine), failures.machine_mtbf_h, by_workers);
  } else {
    const double mtbf_h =
        static_cast<double>(plan.ranks.size()) / (kills_per_s(plan.faults.rate) * seconds_of_hour);
    add_failures(plan, parts_of(plan, [](int rank) { return std::int64_t{rank}; }), mtbf_h,
                 by_workers);
  }
  std::vector<sim::FailureKind> out;
  for (const auto& [workers, per_s] : by_workers) out.push_back({per_s, workers});
  return out;
}

RunRecord with_faults(RunRecord row) {
  const RunPlan& plan = row.plan;
  if (row.status != "ok" || !plan.cluster) return row;
  const auto add = [&](const char* name, const char* unit, double value) {
    row.figures.push_back({name, unit, value, value});
  };
  if (const CheckpointTimes times = times_of_checkpoint(row); times.bytes > 0) {
    add("checkpoint", "MB", 1e-6 * static_cast<double>(times.bytes));
    add("checkpoint stall", "ms", 1e3 * times.stall_s);
    add("checkpoint write", "s", times.write_s);
  }
  if (!plan.faults.plan.empty() || plan.faults.restarts > 0) strike(row);
  if (row.status == "ok" && (writes_checkpoints(plan) || !plan.faults.rate.empty())) predict(row);
  return row;
}

}  // namespace ringside::runner
