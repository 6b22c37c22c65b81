// Timing of a rank's operations (Purpose::timing).
#pragma once

#include <cstdint>

#include "core/comm/store.h"
#include "core/device/timed_device.h"
#include "core/observe/rank_record.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/run/timed_steps.h"

namespace ringside::runner {

/// Ranks wait for each other through the store before their measured steps and before each kind of
/// pieces, but not in between: ranks that began every step together would all use the memory at the
/// same moments, unlike ranks of a run. For the thread that trains.
class RankTimer {
 public:
  /// All arguments outlive this object.
  RankTimer(TimedDevice& device, const RunPlan& plan, int rank, Store& store)
      : device_(device), steps_(device), plan_(plan), rank_(rank), store_(store) {}

  /// Call end_step() when `done` steps are done and begin_step() when the next one begins; the time
  /// in between belongs to no operation.
  void end_step(std::int64_t done) { steps_.end(done > plan_.train.warmup); }
  void begin_step(std::int64_t done);
  /// Adds the times to the record of a rank that has trained. The first repeat of a run times
  /// pieces of the model too (experiments/runner/run/timed_flats.h).
  void finish(RankRecord& record);

 private:
  void meet();

  TimedDevice& device_;
  TimedSteps steps_;
  const RunPlan& plan_;
  const int rank_;
  Store& store_;
  int meetings_ = 0;
};

}  // namespace ringside::runner
