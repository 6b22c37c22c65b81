// RunCheckpoints: one rank's part in writing a run's checkpoints, and in going on from one.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/model.h"
#include "core/scheme/scheme.h"
#include "core/train/checkpoint_part.h"
#include "core/train/running_statistics.h"

namespace ringside {

/// Writes what the scheme, the batch norms, the loss scale and the losses so far are after a step,
/// as [checkpoint] of the plan says: every rank a file of its own, and worker 0 the manifest once
/// all of them, and those of servers, are on the disk. State that several ranks have is divided
/// among them. A checkpoint says nothing of ranks but whose losses it has, so a run at another
/// world or with another pipeline, or of another scheme that computes the same, goes on from it.
///
/// save() copies the state to the host's memory and returns; a thread writes the copy beside
/// training. The copy has as many bytes as the rank's part (12 bytes a parameter with AdamW,
/// divided by the ranks), and stays until the next one. A checkpoint that cannot be written is
/// given up: the run goes on, and its record says why.
class RunCheckpoints {
 public:
  /// All arguments outlive this object.
  RunCheckpoints(const RankContext& context, const Model& model, SyncScheme& scheme,
                 RunningStatistics& statistics);

  /// Brings the scheme, which is attached, to the state of RunPlan::resume, and the loss scale and
  /// the record to what they were then. Returns the number of assignments that this worker has
  /// done: 0 if the run begins anew. Blocks; throws Error for a checkpoint that is damaged or lacks
  /// something.
  std::int64_t restore(LossScale& loss_scale, RankRecord& record);
  /// To be called before an assignment is asked for, with which workers may meet for a checkpoint:
  /// notes whose parts it then has, on worker 0 and where seats are taken again.
  void note_processes();
  /// Whether the state after this step (counted from 0) is saved.
  bool saves_after(std::int64_t step) const;
  /// Whether the run should end after this step (counted from 0), because its launcher was told so
  /// (stop_key), or the world should change after it (change_key). Collective: all workers call it
  /// after every step, and all get the same answer. Blocks. A run without checkpoints is never
  /// asked. Of workers that do not wait for each other, one may be told to leave (leave_key).
  enum class Asked : std::uint8_t { nothing, stop, change, leave };
  Asked asked(std::int64_t step);
  /// Saves the state after a step; the scheme has drained. Waits for the checkpoint before if that
  /// is still being written.
  void save(std::int64_t step, const LossScale& loss_scale, const RankRecord& record, Asked asked);
  /// The same where the scheme says when (SyncScheme::says_when_to_save): after saves_after steps
  /// of the run.
  void save_at(const StepAssignment& assignment, const LossScale& loss_scale,
               const RankRecord& record);
  /// Waits until all is written, and adds the cost to the record.
  void finish(RankRecord& record) { part_.finish(record); }

 private:
  void save_part(std::int64_t done, std::int64_t own, bool on_disk, const LossScale& loss_scale,
                 const RankRecord& record);
  void write_manifest_of(std::int64_t done, const LossScale::State& loss_scale,
                         const std::vector<std::int64_t>& processes,
                         const OpenFolder& folder) const;

  const RankContext& context_;
  const RankContext& whole_;  // of all stages
  const Model& model_;
  SyncScheme& scheme_;
  RunningStatistics& statistics_;
  CheckpointPart part_;
  /// On worker 0, where seats are taken again: the number of the process in each worker's seat.
  std::vector<std::int64_t> processes_;
};

}  // namespace ringside
