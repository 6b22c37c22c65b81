// Runs that go on: from a checkpoint, and after a failure.
#pragma once

#include <functional>
#include <string>

#include "experiments/runner/run/run.h"

namespace ringside::runner {

/// The newest whole checkpoint in the plan's folder; empty if it has none, or if the plan names no
/// folder.
std::string newest_checkpoint(const RunPlan& plan);

/// The newest whole checkpoint of this very run (RunPlan::id), if it was broken off before its last
/// step; empty otherwise. Repeats of a run have one folder, one after the other.
std::string unfinished_checkpoint(const RunPlan& plan);

/// Throws Error that names each setting which decides what a run computes and has another value in
/// the checkpoint, with both values: [model], [data], [optimizer], and the keys of [train] but for
/// those that only decide how. The world and the scheme may be others.
void check_same_run(const RunPlan& plan, const std::string& checkpoint);

/// Makes the folder of the plan's checkpoints, if it names one, and removes the checkpoints there.
/// Throws Error.
void begin_anew(const RunPlan& plan);

/// Adds to the figures of a record with its restarts what these cost: goodput (samples of steps
/// that count, a second of `wall_s`, which goes from the end of the first step to that of the last
/// one), lost steps, time to go on.
void add_cost_of_faults(RunRecord& row, double wall_s);

/// The places of a run on several hosts, as its leader sees them.
struct RunPlaces {
  /// The agents of the plan's ranks that cannot be reached any more, as text; empty if all can.
  std::function<std::string(const RunPlan&)> gone = [](const RunPlan&) { return std::string(); };
  /// Agents::place_on_left.
  std::function<RunPlan(const RunPlan&)> place_on_left{};
};

/// The record of a run that ended at a smaller world than it began with, as one of `plan`, which is
/// the whole run's: the ranks that it has besides are lost.
RunRecord as_whole_run(RunRecord row, const RunPlan& plan);

/// Makes the run as run_once() does, which is given a plan; if it fails, makes it again up to
/// RunPlan::faults.restarts times, each time from the newest checkpoint in the plan's folder, or
/// else from its beginning. A run that fails twice without a step in between that is new to it is
/// not made again, unless faults on purpose struck it.
///
/// If agents are gone, before the run or when it failed, the run is placed anew, at another world
/// if need be, and that is no restart of those above: if its world changes, the record has its
/// worlds (RunRecord::worlds), with the times from the last step before; the plan, homes included,
/// stays that of the whole run.
///
/// The record lists the restarts, and has the figures of add_cost_of_faults(); with a rate of
/// faults also the best interval of checkpoints. `say` gets a line about each restart.
RunOutcome run_with_restarts(
    const RunPlan& plan, const RunPlaces& places,
    const std::function<void(const std::string&)>& say,
    const std::function<void(const Step&)>& on_step,
    const std::function<RunOutcome(const RunPlan&, const std::function<void(const Step&)>&)>&
        run_once);

}  // namespace ringside::runner
