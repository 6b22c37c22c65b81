// RunningStatistics: the moving averages of batch norms on one rank, which are state of no scheme.
#pragma once

#include "core/models/model.h"
#include "core/scheme/scheme.h"
#include "core/train/checkpoint_part.h"

namespace ringside {

/// Each micro-batch of a step has moving averages of its own. All arguments outlive this object.
class RunningStatistics {
 public:
  RunningStatistics(const RankContext& context, const Model& model, SyncScheme& scheme)
      : context_(context), model_(model), scheme_(scheme) {}

  /// Replaces every running statistic by its mean over all micro-batches of all ranks (over their
  /// samples, where micro-batches differ in size), for which all workers must call this. If the
  /// scheme has own replicas, the mean is over the micro-batches of one replica, for each replica
  /// of the assignment, and no worker waits.
  void average(const StepAssignment& assignment);

  /// Adds those of this rank's micro-batches to its part of a checkpoint.
  void take(CheckpointPart& part) const;
  /// Brings them to what they were. Throws Error if steps had another number of micro-batches.
  void restore(const Checkpoint& from);

 private:
  /// Where the unit's statistics stand among those of the whole model, if they do not follow those
  /// of the unit before, which end at `follows`.
  std::int64_t place_of(std::size_t unit, std::int64_t follows) const;

  const RankContext& context_;
  const Model& model_;
  SyncScheme& scheme_;
};

}  // namespace ringside
