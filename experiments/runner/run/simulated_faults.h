// Faults of simulated runs: those of faults.plan, and failures of the cluster.
#pragma once

#include <vector>

#include "core/observe/run_record.h"
#include "core/sim/failing_run.h"

namespace ringside::runner {

/// Completes the record of a simulated run, in which workers that stop, are slow, or are killed and
/// not missed did so in virtual time. Other kills would start a real run again: here the steps
/// since its newest checkpoint, which must have been whole by then, count a second time, with
/// [failures] restart_s and the time to read it. The steps themselves are not simulated again: what
/// goes on from a checkpoint is the run that was. Adds figures:
///
/// - of checkpoints: MB of all ranks, stall, seconds to write it;
/// - with faults.plan or faults.restarts: those of add_cost_of_faults(). A run that dies more often
///   than faults.restarts allows has failed;
/// - with checkpoints on a cluster that says how often it fails, or with faults.rate: the mean time
///   between failures that start the run again, the best interval of checkpoints, and the goodput
///   with the run's interval and with that one, over faults.hours (core/sim/failing_run.h). With
///   faults.rate also restarts, lost steps, lost workers and the time to go on in that time.
RunRecord with_faults(RunRecord row);

/// The failures of a simulated run, by what follows from them: of devices and machines that its
/// ranks are on, or, by a rate of kills, of its ranks. What kills workers alone that may all be
/// lost (RunPlan::expendable) is survived.
std::vector<sim::FailureKind> failures_of(const RunPlan& plan);

}  // namespace ringside::runner
