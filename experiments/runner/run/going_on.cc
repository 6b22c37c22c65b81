#include "experiments/runner/run/going_on.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/untrusted_json.h"
#include "core/checkpoint/checkpoint.h"
#include "core/plan/faults.h"
#include "core/plan/worlds.h"
#include "experiments/runner/run/cost_of_checkpoints.h"

namespace ringside::runner {
namespace {

using nlohmann::json;

/// The keys of [train] that decide what a run computes, but for the order of its sums.
constexpr std::array<std::string_view, 6> deciding = {
    "steps", "global_batch", "precision", "reduce_precision", "seed", "initial_weights"};

/// Adds a line for each member of the table that differs.
void compare(const std::string& table, const json& there, const json& here,
             std::vector<std::string>& differences) {
  for (const auto& [key, value] : here.items()) {
    if (table == "train" && std::ranges::find(deciding, key) == deciding.end()) continue;
    const json other = there.value(key, json());
    if (other != value)
      differences.push_back(
          fmt::format("{}.{} was {} and is {}", table, key, text_of(other), text_of(value)));
  }
}

/// Whether the run is one that faults strike, or that may start again.
bool is_struck(const FaultsConfig& faults) {
  return faults.restarts > 0 || faults.least_world > 0 || !faults.plan.empty() ||
         !faults.rate.empty();
}

}  // namespace

void add_cost_of_faults(RunRecord& row, double wall_s) {
  double lost = 0, down_s = 0;
  for (const Restart& restart : row.restarts) {
    lost += static_cast<double>(restart.lost_steps);
    down_s += restart.down_s;
  }
  for (const WorldPeriod& period : row.worlds) {
    lost += static_cast<double>(period.lost_steps);
    down_s += period.down_s;
  }
  const std::size_t changes = std::max<std::size_t>(1, row.worlds.size()) - 1;
  const TrainConfig& train = row.plan.train;
  const auto add = [&](const char* name, const char* unit, double value) {
    row.figures.push_back({name, unit, value, value});
  };
  const auto useful = static_cast<double>((train.steps - 1) * train.global_batch);
  if (wall_s > 0) add("goodput", "samples/s", useful / wall_s);
  add("restarts", "", static_cast<double>(row.restarts.size()));
  add("lost steps", "", lost);
  if (!row.worlds.empty()) add("world changes", "", static_cast<double>(changes));
  if (const std::size_t stops = row.restarts.size() + changes; stops > 0)
    add("time to go on", "s", down_s / static_cast<double>(stops));
}

std::string newest_checkpoint(const RunPlan& plan) {
  if (plan.checkpoint.path.empty()) return "";
  const auto whole = checkpoints_in(plan.checkpoint.path);
  return whole.empty() ? "" : whole.rbegin()->second.string();
}

std::string unfinished_checkpoint(const RunPlan& plan) {
  const std::string newest = newest_checkpoint(plan);
  if (newest.empty()) return "";
  const Manifest manifest = Checkpoint(newest).manifest();
  const bool of_this_run = manifest.run.value("run", "") == plan.id;
  return of_this_run && manifest.step < plan.train.steps ? newest : "";
}

void check_same_run(const RunPlan& plan, const std::string& checkpoint) {
  const json there = Checkpoint(checkpoint).manifest().run, here = to_json(plan);
  std::vector<std::string> differences;
  for (const char* table : {"model", "data", "optimizer", "train"})
    compare(table, there.value(table, json::object()), here.at(table), differences);
  if (differences.empty()) return;
  throw Error(
      "{}: the checkpoint is of another run: {}; set what it had, choose another checkpoint.path, "
      "or "
      "begin anew with --fresh",
      checkpoint, fmt::join(differences, "; "));
}

RunOutcome run_with_restarts(
    const RunPlan& plan, const std::function<void(const std::string&)>& say,
    const std::function<void(const Step&)>& on_step,
    const std::function<RunOutcome(const RunPlan&, const std::function<void(const Step&)>&)>&
        run_once) {
  RunPlan now = plan;
  std::vector<Restart> restarts;
  std::int64_t most = -1;  // steps that were done before the latest failure
  double failed_at = 0, first_step_at = 0, last_step_at = 0;
  for (;;) {
    std::int64_t newest = 0;
    RunOutcome outcome = run_once(now, [&](const Step& step) {
      last_step_at = seconds_now();
      if (first_step_at == 0) first_step_at = last_step_at;
      if (!restarts.empty() && newest == 0) restarts.back().down_s = last_step_at - failed_at;
      newest = step.steps_done;
      on_step(step);
    });
    outcome.row.restarts = restarts;
    if (outcome.interrupted) return outcome;
    const auto done = static_cast<std::int64_t>(restarts.size());
    if (outcome.row.status == "ok") {
      if (is_struck(plan.faults)) add_cost_of_faults(outcome.row, last_step_at - first_step_at);
      if (!plan.faults.rate.empty())
        add_best_interval(outcome.row, 1 / kills_per_s(plan.faults.rate));
      return outcome;
    }
    // Processes of an elastic run have been replaced one by one.
    if (done == plan.faults.restarts || is_elastic(plan)) return outcome;
    if (!outcome.gone.empty()) {
      outcome.row.error += fmt::format(
          " (not started again: the run needs the slots of {}, which cannot be reached "
          "any more)",
          outcome.gone);
      return outcome;
    }
    if (newest <= most) {
      outcome.row.error += fmt::format(
          " (not started again: the run failed after step {} for the second time)", newest);
      return outcome;
    }
    most = outcome.faults == now.faults ? newest : -1;  // a fault on purpose may strike at one step
    failed_at = seconds_now();
    now.faults = outcome.faults;
    now.resume = newest_checkpoint(now);
    const std::int64_t from = now.resume.empty() ? 0 : Checkpoint(now.resume).manifest().step;
    restarts.push_back({outcome.row.error, from, std::max<std::int64_t>(0, newest - from), 0});
    say(fmt::format("restart {} of {} from {}: {}\n", done + 1, plan.faults.restarts,
                    from == 0 ? "the beginning" : fmt::format("step {}", from), outcome.row.error));
  }
}

void begin_anew(const RunPlan& plan) {
  if (plan.checkpoint.path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(plan.checkpoint.path, error);
  if (error) throw Error("checkpoint.path = '{}': {}", plan.checkpoint.path, error.message());
  remove_old_checkpoints(OpenFolder(plan.checkpoint.path), 0);
}

}  // namespace ringside::runner
