#include "experiments/runner/run/going_on.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/untrusted_json.h"
#include "core/checkpoint/checkpoint.h"
#include "core/plan/faults.h"
#include "core/plan/worlds.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/cost_of_checkpoints.h"
#include "experiments/runner/run/kept_worlds.h"

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

RunRecord as_whole_run(RunRecord row, const RunPlan& plan) {
  RankRecord absent;
  absent.role = "lost";
  const int workers = row.plan.world;
  row.ranks.insert(row.ranks.begin() + workers, static_cast<std::size_t>(plan.world - workers),
                   absent);
  while (row.ranks.size() < plan.ranks.size()) row.ranks.push_back(absent);
  for (std::size_t r = 0; r < row.ranks.size(); ++r) row.ranks[r].rank = static_cast<int>(r);
  row.plan = plan;
  return row;
}

namespace {

/// The newest whole checkpoint from which the run can go on at another world: one at which all
/// replicas are equal. Empty if there is none.
std::string newest_for_another_world(const RunPlan& plan) {
  if (plan.checkpoint.path.empty()) return "";
  const SchemeInfo& scheme = find_scheme(plan.scheme);
  const std::int64_t meets =
      scheme.own_replicas && scheme.meets_every ? scheme.meets_every(plan.options) : 1;
  const auto whole = checkpoints_in(plan.checkpoint.path);
  for (auto one = whole.rbegin(); one != whole.rend(); ++one)
    if (meets > 0 && one->first % meets == 0) return one->second.string();
  return "";
}

std::int64_t step_of(const std::string& checkpoint) {
  return checkpoint.empty() ? 0 : Checkpoint(checkpoint).manifest().step;
}

std::string words_for_gone(const std::string& agents) {
  return agents + (agents.find(", ") == std::string::npos ? " is gone" : " are gone");
}

using RunOnce = std::function<RunOutcome(const RunPlan&, const std::function<void(const Step&)>&)>;

/// A run that is made again after failures.
class SurvivingRun {
 public:
  SurvivingRun(const RunPlan& plan, const RunPlaces& places,
               const std::function<void(const std::string&)>& say,
               const std::function<void(const Step&)>& on_step)
      : plan_(plan), places_(places), say_(say), on_step_(on_step), now_(plan) {}

  RunOutcome make(const RunOnce& run_once) {
    try {
      begin();
    } catch (const std::exception& error) {
      return {failed_row(plan_, error.what())};
    }
    for (;;) {
      newest_ = 0;
      RunOutcome outcome = run_once(now_, [&](const Step& step) { note(step); });
      outcome.row.restarts = restarts_;
      if (outcome.interrupted) return outcome;
      if (outcome.row.status == "ok") return finished(std::move(outcome));
      // Processes of an elastic run have been replaced one by one.
      if (!is_elastic(plan_) && goes_on(outcome)) continue;
      if (now_.world != plan_.world) outcome.row.plan = plan_;
      return outcome;
    }
  }

 private:
  /// Agents may be gone since earlier runs, and an earlier job may have lost some.
  void begin() {
    std::string cause = "it goes on in another job";
    if (const std::string gone = gone_of_now(); !gone.empty()) {
      now_ = places_.place_on_left(plan_);
      cause = words_for_gone(gone);
    }
    if (!is_elastic(plan_)) periods_ = kept_worlds(plan_, step_of(plan_.resume));
    if (now_.world == (periods_.empty() ? plan_.world : periods_.back().world)) return;
    if (!now_.resume.empty()) now_.resume = newest_for_another_world(now_);
    const std::int64_t from = step_of(now_.resume);
    periods_ = kept_worlds(plan_, from);
    if (periods_.empty() && from > 0) periods_.push_back(first_period());
    periods_.push_back({.from = from, .world = now_.world, .cause = cause});
    say_(fmt::format("world {} after step {}: {}\n", now_.world, from, cause));
    keep();
  }

  void note(const Step& step) {
    last_step_at_ = seconds_now();
    if (first_step_at_ == 0) first_step_at_ = last_step_at_;
    if (double* const down_s = std::exchange(down_s_, nullptr)) *down_s = last_step_at_ - down_at_;
    newest_ = step.steps_done;
    on_step_(step);
  }

  RunOutcome finished(RunOutcome outcome) const {
    RunRecord& row = outcome.row;
    if (!periods_.empty()) {
      row.worlds = periods_;
      row = as_whole_run(std::move(row), plan_);
      auto& notes = outcome.rank_notes;
      if (!notes.empty())
        notes.insert(notes.begin() + now_.world, static_cast<std::size_t>(plan_.world - now_.world),
                     "");
      notes.resize(row.ranks.size());
    }
    if (is_struck(plan_.faults)) add_cost_of_faults(row, last_step_at_ - first_step_at_);
    if (!plan_.faults.rate.empty()) add_best_interval(row, 1 / kills_per_s(plan_.faults.rate));
    return outcome;
  }

  /// Plans the next attempt after one that failed; returns false if there is none, and then adds to
  /// the error why.
  bool goes_on(RunOutcome& outcome) {
    std::string& error = outcome.row.error;
    RunPlan next = now_;
    const std::string gone = gone_of_now();
    if (!gone.empty()) {
      try {
        next = places_.place_on_left(plan_);
      } catch (const std::exception& cause) {
        error += fmt::format(" (not started again: {})", cause.what());
        return false;
      }
    } else if (counted_ == plan_.faults.restarts) {
      if (places_.place_on_left && plan_.faults.least_world > 0)
        error += fmt::format(
            " (not started again: no host is gone, and faults.restarts = {} allows no more)",
            counted_);
      return false;
    } else if (newest_ <= most_) {
      error += fmt::format(" (not started again: the run failed after step {} for the second time)",
                           newest_);
      return false;
    } else {
      ++counted_;
    }
    const bool struck = !gone.empty() || outcome.faults != now_.faults;
    most_ = struck ? -1 : newest_;  // a fault on purpose may strike at one step
    next.faults = outcome.faults;
    const bool other_world = next.world != now_.world;
    next.resume = other_world ? newest_for_another_world(next) : newest_checkpoint(next);
    now_ = std::move(next);
    if (other_world)
      note_other_world(words_for_gone(gone));
    else
      note_restart(error, gone.empty());
    return true;
  }

  void note_other_world(const std::string& cause) {
    const std::int64_t from = step_of(now_.resume);
    const double now = seconds_now();
    if (periods_.empty()) periods_.push_back(first_period());
    down_at_ = last_step_at_ > 0 ? last_step_at_ : now;
    periods_.push_back({.from = from,
                        .world = now_.world,
                        .cause = cause,
                        .lost_steps = std::max<std::int64_t>(0, newest_ - from),
                        .left_s = now - down_at_});
    down_s_ = &periods_.back().down_s;
    say_(fmt::format("world {} after step {}: {}\n", now_.world, from, cause));
    keep();
  }

  void note_restart(const std::string& error, bool is_counted) {
    const std::int64_t from = step_of(now_.resume);
    down_at_ = seconds_now();
    restarts_.push_back({error, from, std::max<std::int64_t>(0, newest_ - from), 0});
    down_s_ = &restarts_.back().down_s;
    const std::string number =
        is_counted ? fmt::format(" {} of {}", counted_, plan_.faults.restarts) : "";
    say_(fmt::format("restart{} from {}: {}\n", number,
                     from == 0 ? "the beginning" : fmt::format("step {}", from), error));
  }

  WorldPeriod first_period() const { return {.from = 0, .world = plan_.world, .cause = {}}; }
  /// For a job that goes on with this run.
  void keep() {
    try {
      keep_worlds(plan_, periods_);
    } catch (const std::exception& error) {
      say_(fmt::format("{}\n", error.what()));
    }
  }
  std::string gone_of_now() const { return places_.place_on_left ? places_.gone(now_) : ""; }

  const RunPlan& plan_;
  const RunPlaces& places_;
  const std::function<void(const std::string&)>& say_;
  const std::function<void(const Step&)>& on_step_;
  RunPlan now_;  // of the present attempt
  std::vector<Restart> restarts_;
  std::vector<WorldPeriod> periods_;  // once the world has changed
  std::int64_t counted_ = 0;          // restarts by RunPlan::faults.restarts
  std::int64_t newest_ = 0;           // step of the present attempt
  std::int64_t most_ = -1;            // steps that were done before the latest failure
  double first_step_at_ = 0, last_step_at_ = 0, down_at_ = 0;
  double* down_s_ = nullptr;  // gets the time from `down_at_` until the next step
};

}  // namespace

RunOutcome run_with_restarts(const RunPlan& plan, const RunPlaces& places,
                             const std::function<void(const std::string&)>& say,
                             const std::function<void(const Step&)>& on_step,
                             const RunOnce& run_once) {
  return SurvivingRun(plan, places, say, on_step).make(run_once);
}

void begin_anew(const RunPlan& plan) {
  if (plan.checkpoint.path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(plan.checkpoint.path, error);
  if (error) throw Error("checkpoint.path = '{}': {}", plan.checkpoint.path, error.message());
  remove_old_checkpoints(OpenFolder(plan.checkpoint.path), 0);
  forget_worlds(plan);
}

}  // namespace ringside::runner
