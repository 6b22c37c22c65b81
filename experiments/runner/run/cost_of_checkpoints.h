// The cost of a run's checkpoints, and how often it should write them.
#pragma once

#include <cstdint>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// Of one checkpoint of a run.
struct CheckpointTimes {
  std::int64_t bytes = 0;  // of all ranks together; 0: the run wrote none
  double stall_s = 0;      // training stood still for it, with the wait for the one before
  double write_s = 0;      // from then on until the slowest rank's part was on the storage
};
CheckpointTimes times_of_checkpoint(const RunRecord& row);

/// A measured step, on average; 0 if there was none.
double seconds_of_step(const RunRecord& row);

/// The seconds until the ranks of a simulated run have read a checkpoint, all at once: each reads
/// what it needs, the storage shares its rate among machines and ranks, and what a device needs
/// then goes to it over its link.
double seconds_to_read(const RunRecord& row);

/// Adds figures of a run that wrote checkpoints and fails once in `mtbf_s` on average: the best
/// interval by Young's and by Daly's formula (core/plan/checkpoint_interval.h), and the latter in
/// steps, for checkpoint.every. No interval is shorter than a write takes. Does nothing for a run
/// without checkpoints.
void add_best_interval(RunRecord& row, double mtbf_s);
/// The best checkpoint.every: Daly's. 0 without checkpoints or steps.
std::int64_t best_every(const RunRecord& row, double mtbf_s);

}  // namespace ringside::runner
