// From the plans of a comparison to its rows.
#pragma once

#include <vector>

#include "experiments/data_state.h"
#include "experiments/predict.h"
#include "experiments/progress.h"
#include "experiments/results.h"

namespace ringside {

struct ComparisonOutcome {
  std::vector<Row> rows;  // those that were there before too
  bool interrupted = false;
};

/// The runs that `done` has no row of: the rest of the comparison.
std::vector<RunPlan> remaining_runs(const std::vector<RunPlan>& runs, const std::vector<Row>& done);

/// Makes `runs` one after the other, each with what `predictor` says of it, and adds its row and
/// its trace to `folder` as soon as they are there. `rows` are those of earlier runs, `data` is
/// what they all read: a run that reads something else fails. A failed run does not end the
/// comparison. Throws Error when the folder can no longer be written.
ComparisonOutcome run_comparison(const std::vector<RunPlan>& runs, std::vector<Row> rows,
                                 const DataState& data, ResultsFolder& folder,
                                 const RankStart& start, Predictor& predictor,
                                 ProgressDisplay& display);

}  // namespace ringside
