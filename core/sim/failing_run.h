// FailingRun: a long run on a cluster whose parts fail at random.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside::sim {

/// Failures that have the same consequence.
struct FailureKind {
  double per_s = 0;          // the rate of all of them together
  std::int64_t workers = 0;  // whom the others do without; 0: the run starts again
  bool operator==(const FailureKind&) const = default;
};

/// A run as its failures see it. All its steps take the same time; what those of a simulated run
/// take, and its checkpoints, is measured in a few of them.
struct FailingRun {
  std::int64_t workers = 1;
  double step_s = 0;       // of a step, while all workers are there
  std::int64_t every = 0;  // steps from one checkpoint to the next; 0: there are none
  double stall_s = 0;      // training stands still for each checkpoint
  double write_s = 0;      // then it is written beside training, and the next one waits for it
  double restart_s = 0;    // from a failure until the run goes on from its newest whole checkpoint
  double replace_s = 0;    // until another worker takes the place of a lost one
  std::int64_t expendable = 0;  // workers that may be away at a time; one more is a restart
  std::vector<FailureKind> failures{};
};

/// What failures, and checkpoints, cost a run: means over several draws.
struct FailureCost {
  double goodput = 0;  // steps that count, as a share of those without failures and checkpoints
  double restarts = 0;
  double lost_steps = 0;  // done, and made again
  double down_s = 0;      // of a restart; 0 if there was none
  double lost_workers = 0;
};

/// Draws failures of each kind at exponential intervals, as the seed says, for `seconds`, `draws`
/// times. A restart gives the run all its workers, and takes its work since the newest whole
/// checkpoint; a failure that would start the run again begins a restart under way anew. While
/// workers are away, a step takes longer by their share. Work after the newest checkpoint counts at
/// the end. Takes less than a microsecond for each failure, however many checkpoints lie between.
FailureCost draw_failures(const FailingRun& run, double seconds, std::uint64_t seed, int draws);

}  // namespace ringside::sim
