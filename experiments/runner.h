// From plans to rows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data_state.h"
#include "experiments/progress.h"
#include "experiments/results.h"

namespace ringside {

/// How ranks are started, and when to stop.
struct RankStart {
  std::string program;                 // this very program
  std::vector<std::string> arguments;  // that make it a rank; the socket's number is added
  std::function<bool()> interrupted;
};

struct RunOutcome {
  Row row;
  bool interrupted = false;  // then the row says nothing
};

/// A step that all workers have done.
struct Step {
  std::int64_t steps_done = 0;
  double loss = 0;     // of the global batch; added up in the order of arrival, for display
  double seconds = 0;  // of the slowest worker
  std::optional<double> held_out_loss;
};

/// Runs one plan in fresh processes; blocks until they have ended. A run that fails is a row that
/// says so.
RunOutcome run_plan(const RunPlan& plan, const RankStart& start,
                    const std::function<void(const Step&)>& on_step);

struct ComparisonOutcome {
  std::vector<Row> rows;  // those that were there before too
  bool interrupted = false;
};

/// The runs that `done` has no row of: the rest of the comparison.
std::vector<RunPlan> remaining_runs(const std::vector<RunPlan>& runs, const std::vector<Row>& done);

/// Makes `runs` one after the other, and adds each one's row, and its trace, to `folder` as soon as
/// it is there. `rows` are those of earlier runs, `data` is what they all read: a run that reads
/// something else fails. A failed run does not end the comparison. Throws Error when the folder
/// can no longer be written.
ComparisonOutcome run_comparison(const std::vector<RunPlan>& runs, std::vector<Row> rows,
                                 const DataState& data, ResultsFolder& folder,
                                 const RankStart& start, ProgressDisplay& display);

}  // namespace ringside
