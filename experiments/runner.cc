#include "experiments/runner.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/cluster/launch.h"
#include "experiments/trace.h"

namespace ringside {
namespace {

/// Waits until all workers have reported a step.
class StepCollector {
 public:
  StepCollector(int world, const std::function<void(const Step&)>& on_step)
      : world_(world), on_step_(on_step) {}

  void add(const nlohmann::json& progress) {
    const auto number = progress.at("step").get<std::int64_t>();
    Pending& pending = pending_[number];
    pending.step.steps_done = number;
    pending.step.loss += progress.at("loss").get<double>();
    pending.step.seconds = std::max(pending.step.seconds, progress.at("seconds").get<double>());
    if (const auto held_out = progress.find("held_out_loss"); held_out != progress.end())
      pending.step.held_out_loss = held_out->get<double>();
    if (++pending.workers < world_) return;
    on_step_(pending.step);
    pending_.erase(number);
  }

 private:
  struct Pending {
    Step step;
    int workers = 0;
  };
  int world_;
  const std::function<void(const Step&)>& on_step_;
  std::map<std::int64_t, Pending> pending_;
};

Row row_of(const RunPlan& plan, const LaunchResult& result) {
  if (!result.error.empty()) return failed_row(plan, result.error);
  try {
    std::vector<RankRecord> records;
    for (const nlohmann::json& record : result.records)
      records.push_back(rank_record_from_json(record));
    return make_row(plan, std::move(records));
  } catch (const nlohmann::json::exception& error) {
    return failed_row(plan, fmt::format("a rank's record cannot be read: {}", error.what()));
  }
}

/// Empty if the data is as it was.
std::string change_of(const DataState& data, const RunPlan& plan) {
  try {
    const std::string changed = first_change(data, data_state(plan.data));
    if (changed.empty()) return {};
    return fmt::format(
        "data.path: {} changed while the comparison ran; compare on text that stays as it is",
        changed);
  } catch (const std::exception& error) {
    return error.what();
  }
}

RunOutcome run_on_same_data(const RunPlan& plan, const DataState& data, const RankStart& start,
                            const std::function<void(const Step&)>& on_step) {
  if (const std::string change = change_of(data, plan); !change.empty())
    return {failed_row(plan, change)};
  RunOutcome outcome = run_plan(plan, start, on_step);
  if (outcome.interrupted) return outcome;
  if (const std::string change = change_of(data, plan); !change.empty())
    return {failed_row(plan, change)};
  return outcome;
}

}  // namespace

RunOutcome run_plan(const RunPlan& plan, const RankStart& start,
                    const std::function<void(const Step&)>& on_step) {
  StepCollector steps(plan.world, on_step);
  LaunchResult result;
  try {
    result = launch(
        plan, start.program, start.arguments,
        [&](int rank, const nlohmann::json& progress) {
          if (plan.ranks[static_cast<std::size_t>(rank)].worker >= 0) steps.add(progress);
        },
        start.interrupted);
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  // Ctrl-C reaches the ranks too: they may die of it before the launcher looks.
  if (result.interrupted || (!result.error.empty() && start.interrupted())) return {{}, true};
  return {row_of(plan, result), false};
}

std::vector<RunPlan> remaining_runs(const std::vector<RunPlan>& runs,
                                    const std::vector<Row>& done) {
  std::vector<RunPlan> remaining;
  for (const RunPlan& run : runs)
    if (std::none_of(done.begin(), done.end(),
                     [&](const Row& row) { return row.plan.id == run.id; }))
      remaining.push_back(run);
  return remaining;
}

ComparisonOutcome run_comparison(const std::vector<RunPlan>& runs, std::vector<Row> rows,
                                 const DataState& data, ResultsFolder& folder,
                                 const RankStart& start, ProgressDisplay& display) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (start.interrupted()) return {std::move(rows), true};
    display.begin_run(i);
    RunOutcome outcome = run_on_same_data(runs[i], data, start, [&](const Step& step) {
      display.step(step.steps_done, step.seconds);
    });
    if (outcome.interrupted) {
      display.leave_line();
      return {std::move(rows), true};
    }
    folder.append(outcome.row);
    if (outcome.row.status == "ok")
      folder.write(fmt::format("traces/{}.json", runs[i].id), trace(outcome.row.ranks).dump());
    // What each rank did at each step is told; a comparison may be long.
    for (RankRecord& rank : outcome.row.ranks) {
      rank.slices = {};
      rank.steps = {};
    }
    display.end_run(outcome.row);
    rows.push_back(std::move(outcome.row));
  }
  return {std::move(rows), false};
}

}  // namespace ringside
