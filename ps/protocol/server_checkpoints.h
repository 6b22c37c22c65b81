// ServerCheckpoints: a server's part in writing a run's checkpoints, and in going on from one.
#pragma once

#include <cstdint>
#include <functional>

#include "core/train/checkpoint_part.h"
#include "ps/protocol/server.h"

namespace ringside::ps {

/// Saves what a server keeps (ServerState::visit_state, ServerState::course) as [checkpoint] of the
/// plan says, as workers do (core/train/run_checkpoints.h). Under bsp a server needs no message for
/// that: no worker pushes a gradient of the next step before it has all values of this one, so once
/// the last update of a step is done the server has the state of exactly this step, until its next
/// message. A stop that [checkpoint] does not foresee is agreed on by the workers after a step for
/// which all have their values; they push no more then, and the server learns the step from the
/// store. Where workers do not wait for each other, they meet (ps/protocol/meetings.h), and server
/// 0 learns from the store that the run should stop.
class ServerCheckpoints {
 public:
  /// Tells worker 0, by the store, whether the server keeps values. `meanwhile` is called from time
  /// to time while the server waits for a checkpoint that is still being written: it tells the
  /// workers that the server is there. All arguments outlive this object.
  ServerCheckpoints(const RankContext& context, Server& server, std::function<void()> meanwhile);

  /// Brings the server, which has handled no message yet, to the state of RunPlan::resume; the
  /// model has `parameters` parameters. Returns the number of steps that are done: 0 if the run
  /// begins anew. Blocks; throws Error for a checkpoint that is damaged or lacks something.
  std::int64_t restore(std::int64_t parameters);
  /// To be called between any two messages: copies the state if a checkpoint of it is due, for
  /// which it waits for the device, and for the checkpoint before if that is still being written.
  /// Returns the replies to workers that have met.
  Replies look();
  /// The step after which the run ends: train.steps, RunPlan::until, or that of a stop.
  std::int64_t last_step() const { return last_; }
  /// Waits until all is written, and sets the record's cost.
  void finish(RankRecord& record);

 private:
  bool is_asked_for() const;
  bool writes() const { return is_asked_for() && server_.parameter_count() > 0; }
  /// The number of steps after which the next checkpoint is due.
  std::int64_t next_due() const;
  void save(std::int64_t steps);
  Replies hold_meeting();

  const RankContext& context_;
  Server& server_;
  CheckpointPart part_;
  std::int64_t saved_ = 0;  // steps of the latest checkpoint
  std::int64_t due_ = 0;    // next_due() after that one, if it is known
  std::int64_t last_;
  bool told_to_stop_ = false;
};

}  // namespace ringside::ps
