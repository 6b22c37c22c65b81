#include "experiments/runner.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/trace.h"

namespace ringside {
namespace {

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
                                 const RankStart& start, Predictor& predictor,
                                 ProgressDisplay& display) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (start.interrupted()) return {std::move(rows), true};
    const std::optional<Prediction> predicted = predictor.predict(runs[i]);
    display.begin_run(i);
    RunOutcome outcome = run_on_same_data(runs[i], data, start, [&](const Step& step) {
      display.step(step.steps_done, step.seconds);
    });
    if (outcome.interrupted) {
      display.leave_line();
      return {std::move(rows), true};
    }
    outcome.row.predicted = predicted;
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
