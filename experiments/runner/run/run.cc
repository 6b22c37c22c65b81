#include "experiments/runner/run/run.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/observe/over_ranks.h"
#include "core/plan/faults.h"
#include "core/plan/worlds.h"
#include "core/train/trainer.h"
#include "experiments/runner/run/going_on.h"
#include "experiments/runner/run/simulated_faults.h"

namespace ringside::runner {
namespace {

/// Collects what workers report, and passes a step on once all workers have reported it.
class StepCollector {
 public:
  StepCollector(const RunPlan& plan, const std::function<void(const Step&)>& on_step)
      : world_(plan.world),
        elastic_(is_elastic(plan)),
        free_(plan.promise == Promise::replayed ||
              (plan.promise == Promise::own_algorithm && plan.servers > 0)),
        on_step_(on_step) {}

  void add(const Progress& progress) {
    if (free_) {
      // Workers do not wait for each other, and some may end or take no part in a step: the newest
      // step of any is shown.
      if (progress.step > newest_) on_step_({progress.step, progress.loss, progress.seconds, {}});
      newest_ = std::max(newest_, progress.step);
      return;
    }
    if (progress.step <= newest_) return;  // made again
    Pending& pending = pending_[progress.step];
    pending.step.steps_done = progress.step;
    pending.step.loss += progress.loss;
    pending.step.seconds = std::max(pending.step.seconds, progress.seconds);
    // Workers' shares are added as they arrive: this sum is only displayed.
    if (progress.held_out) {
      if (!pending.step.held_out) pending.step.held_out.emplace();
      *pending.step.held_out += *progress.held_out;
    }
    if (++pending.workers < world_) return;
    newest_ = elastic_ ? progress.step : 0;
    on_step_(pending.step);
    pending_.erase(progress.step);
  }
  /// From now on there are so many workers, which begin with the step after `done`.
  void begin_world(int world, std::int64_t done) {
    world_ = world;
    pending_.erase(pending_.upper_bound(done), pending_.end());
  }

 private:
  struct Pending {
    Step step;
    int workers = 0;
  };
  int world_;
  bool elastic_, free_;
  std::int64_t newest_ = 0;
  const std::function<void(const Step&)>& on_step_;
  std::map<std::int64_t, Pending> pending_;
};

/// The row of an elastic run at the last of its worlds.
RunRecord elastic_row(const RunPlan& plan, const LaunchResult& result) {
  try {
    std::vector<RankRecord> records;
    for (const nlohmann::json& record : result.records)
      records.push_back(read_json<RankRecord>(record));
    RunRecord row = make_row(*result.at_end, std::move(records));
    row.worlds = result.worlds;
    return as_whole_run(std::move(row), plan);
  } catch (const nlohmann::json::exception& error) {
    return failed_row(plan, fmt::format("a rank's record cannot be read: {}", error.what()));
  }
}

/// `steps_of` has the number of steps that each rank has reported.
RunRecord row_of(const RunPlan& plan, const LaunchResult& result,
                 std::map<int, std::int64_t> steps_of) {
  if (!result.error.empty()) return failed_row(plan, result.error);
  if (result.at_end) return elastic_row(plan, result);
  try {
    std::vector<RankRecord> records;
    for (std::size_t r = 0; r < result.records.size(); ++r) {
      if (!result.lost.contains(plan.ranks[r].worker)) {
        records.push_back(read_json<RankRecord>(result.records[r]));
        // Of a worker whose seat several processes had the record is that of the last one.
        if (!result.worlds.empty() && plan.ranks[r].worker >= 0)
          records.back().lost_after = steps_of[static_cast<int>(r)];
        continue;
      }
      RankRecord& lost = records.emplace_back();
      lost.rank = static_cast<int>(r);
      lost.role = "lost";
      lost.lost_after = steps_of[lost.rank];
    }
    RunRecord row = make_row(plan, std::move(records));
    row.worlds = result.worlds;
    for (const auto& [worker, how] : result.lost) row.lost_workers.push_back(how);
    if (plan.cluster)
      for (const auto& [worker, after] : lost_on_purpose(plan))
        row.lost_workers.push_back(
            fmt::format("worker {} was killed on purpose after step {}", worker, after));
    for (const auto& [rank, how] : result.slow) row.slow_workers.push_back(how);
    return row;
  } catch (const nlohmann::json::exception& error) {
    return failed_row(plan, fmt::format("a rank's record cannot be read: {}", error.what()));
  }
}

std::vector<RankHost*> hosts_of(const RunPlan& plan, const RankStart& start) {
  std::vector<RankHost*> out;
  for (const RankHome& home : plan.homes)
    out.push_back(start.agents.hosts.at(static_cast<std::size_t>(home.agent)));
  return out;
}

/// Converts the traces of ranks on other hosts to this process's clock; returns a note about each
/// rank.
std::vector<std::string> put_on_one_clock(RunRecord& row, const std::vector<RankHost*>& hosts) {
  std::map<std::string, std::optional<ClockDifference>> clocks;  // by host
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    auto& clock = clocks[row.plan.homes[r].host];
    if (clock) continue;  // ranks of one host have one clock
    try {
      clock = hosts[r]->clock();
    } catch (const Error&) {
      // A run may go on without a host that is lost, and so does its trace.
    }
  }
  std::vector<std::string> notes;
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    const std::string& host = row.plan.homes[r].host;
    const ClockDifference clock = clocks[host].value_or(ClockDifference{});
    for (Slice& slice : row.ranks[r].slices) slice.begin_s -= clock.ahead_s;
    for (MemorySample& sample : row.ranks[r].memory) sample.at_s -= clock.ahead_s;
    notes.push_back(fmt::format(" on {}{}", host, clocks[host] ? "" : ", its clock unknown"));
    if (clock.error_s > 0)
      notes.back() += fmt::format(", its clock known to {:.0f} us", 1e6 * clock.error_s);
  }
  return notes;
}

/// The agents of a run's ranks that cannot be reached any more, as text; empty if all can.
std::string gone_of(const RunPlan& plan, const std::vector<RankHost*>& hosts) {
  std::map<int, std::string> gone;  // by agent
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r]->lost())
      gone[plan.homes[r].agent] =
          fmt::format("agent {} on {}", plan.homes[r].agent, plan.homes[r].host);
  std::string out;
  for (const auto& [agent, name] : gone) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::string collectives_of(const LaunchResult& result) {
  std::string out;
  for (const auto& [name, records] : result.kept)
    if (name.starts_with("collectives/")) out += (out.empty() ? "[" : ",\n") + records;
  return out.empty() ? out : out + "]\n";
}

RunOutcome run_once(const RunPlan& plan, const RankStart& start,
                    const std::function<void(const Step&)>& on_step) {
  StepCollector steps(plan, on_step);
  std::map<int, std::int64_t> steps_of;
  std::optional<LoadMeter> meter;
  if (!plan.cluster) meter.emplace();  // the machine's load does not change virtual time
  LaunchResult result;
  std::vector<RankHost*> hosts;
  try {
    if (!plan.cluster) hosts = hosts_of(plan, start);
    const LaunchListener listener{
        .on_progress =
            [&](int rank, const nlohmann::json& progress) {
              // In an elastic run the numbers of servers change, and only workers report.
              if (!is_elastic(plan) && plan.ranks[static_cast<std::size_t>(rank)].worker < 0)
                return;
              steps.add(read_json<Progress>(progress, Absent::keeps_default));
              ++steps_of[rank];
            },
        .on_output = start.on_output,
        .on_world = [&](int world, std::int64_t done) { steps.begin_world(world, done); }};
    if (hosts.empty()) {
      result = launch(plan, start.program, listener, start.interrupted);
    } else {
      const std::unique_ptr<RunSidecar> sidecar = start.agents.sidecar(plan);
      result = launch(plan, hosts, listener, start.interrupted, sidecar.get());
    }
  } catch (const std::exception& error) {
    result.error = error.what();
    result.faults = plan.faults;
  }
  // Ctrl-C reaches the ranks too. It may end them before the launcher notices the interruption, and
  // then the launcher reports an error.
  if (result.stopped) return {{}, true, true, {}};
  if (result.interrupted || (!result.error.empty() && start.interrupted())) return {{}, true};
  RunOutcome outcome{row_of(plan, result, std::move(steps_of)), false, false, result.faults,
                     collectives_of(result)};
  if (meter) {
    outcome.row.load = meter->read();
    outcome.row.load->stood_still_s =
        std::max(result.stood_still_s, stood_still_s(plan, outcome.row.ranks));
  }
  if (outcome.row.status == "ok" && !hosts.empty())
    outcome.rank_notes = put_on_one_clock(outcome.row, hosts);
  return outcome;
}

}  // namespace

RunOutcome run_plan(const RunPlan& plan, const RankStart& start,
                    const std::function<void(const Step&)>& on_step) {
  if (plan.cluster) {
    RunOutcome outcome = run_once(plan, start, on_step);
    outcome.row = with_faults(std::move(outcome.row));
    return outcome;
  }
  try {
    if (plan.resume.empty()) begin_anew(plan);
  } catch (const std::exception& error) {
    return {failed_row(plan, error.what())};
  }
  const RunPlaces places{
      .gone = [&](const RunPlan& now) { return gone_of(now, hosts_of(now, start)); },
      .place_on_left = start.agents.place_on_left};
  return run_with_restarts(plan, places, start.on_output, on_step,
                           [&](const RunPlan& now, const std::function<void(const Step&)>& listen) {
                             return run_once(now, start, listen);
                           });
}

}  // namespace ringside::runner
