// The execution of all runs of a comparison, from their plans to their records.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/runner/results/data_state.h"
#include "experiments/runner/results/results.h"
#include "experiments/runner/run/event_feed.h"
#include "experiments/runner/run/predict.h"

namespace ringside::runner {

struct ComparisonOutcome {
  std::vector<RunRecord> rows;  // including those of earlier runs
  bool interrupted = false;
  /// The id of the run whose replay was interrupted, if one was. The run's record is kept, without
  /// a replay.
  std::string unreplayed{};
  /// The reason why the remaining runs were not made; empty if there is none.
  std::string obstacle{};
};

/// The way in which the runs of a comparison are made; tests replace it.
struct RunMaker {
  /// Makes one run; blocks.
  std::function<RunOutcome(const RunPlan&, const std::function<void(const Step&)>&)> make;
  std::function<bool()> interrupted;
  int most_attempts = 1;  // at a run that other work disturbs each time
  /// The reason why no further run can be made, as one line; empty if there is none.
  std::function<std::string()> obstacle = [] { return std::string(); };
};
/// Returns a maker that makes each run in new processes.
RunMaker run_maker(const RankStart& start, int most_attempts);

/// The runs that are not finished when `done` are the records of all attempts so far (finished() in
/// experiments/runner/results/attempts.h), in the order in which they are to be made
/// (RunPlan::place).
std::vector<RunPlan> remaining_runs(const std::vector<RunPlan>& runs,
                                    const std::vector<RunRecord>& done, int most_attempts);

/// Makes `runs` one after the other, lets `predictor` predict each first, and adds each record and
/// trace to `folder` as soon as the run has ended. A run that other work disturbed is made again at
/// once, from its beginning: every attempt leaves a record, and the attempt that counts leaves its
/// trace. `rows` are the records of earlier runs. `data` is the state of the files that all runs
/// read: a run fails if one of its files has changed. A failed run does not end the comparison.
/// `feed` has begun, and gets every run and step; the caller ends it. Blocks. Throws Error if the
/// folder can no longer be written.
ComparisonOutcome run_comparison(const std::vector<RunPlan>& runs, std::vector<RunRecord> rows,
                                 const DataState& data, ResultsFolder& folder,
                                 const RunMaker& maker, Predictor& predictor, EventFeed& feed);

}  // namespace ringside::runner
