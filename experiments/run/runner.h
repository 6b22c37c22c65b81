// From the plans of a comparison to its rows.
#pragma once

#include <functional>
#include <vector>

#include "experiments/results/data_state.h"
#include "experiments/results/results.h"
#include "experiments/run/predict.h"
#include "experiments/run/progress.h"

namespace ringside {

struct ComparisonOutcome {
  std::vector<Row> rows;  // those that were there before too
  bool interrupted = false;
};

/// How the runs of a comparison are made.
struct RunMaker {
  /// Makes one run; blocks.
  std::function<RunOutcome(const RunPlan&, const std::function<void(const Step&)>&)> make;
  std::function<bool()> interrupted;
  int most_attempts = 1;  // at a run, if all are disturbed
};
/// Makes runs in fresh processes.
RunMaker run_maker(const RankStart& start, int most_attempts);

/// The runs that the rows in `done` do not settle (experiments/results/attempts.h): the rest of the
/// comparison, in the order in which they are made (RunPlan::place).
std::vector<RunPlan> remaining_runs(const std::vector<RunPlan>& runs, const std::vector<Row>& done,
                                    int most_attempts);

/// Makes `runs` one after the other, each with what `predictor` says of it, and adds its row and
/// its trace to `folder` as soon as they are there. A run that something disturbed is made again
/// at once: every attempt leaves its row, the one that counts its trace. `rows` are those of
/// earlier runs, `data` is what they all read: a run that reads something else fails. A failed run
/// does not end the comparison. Throws Error when the folder can no longer be written.
ComparisonOutcome run_comparison(const std::vector<RunPlan>& runs, std::vector<Row> rows,
                                 const DataState& data, ResultsFolder& folder,
                                 const RunMaker& maker, Predictor& predictor,
                                 ProgressDisplay& display);

}  // namespace ringside
