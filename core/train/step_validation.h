// StepValidation: the updates of steps, as far as they may be skipped or put right.
#pragma once

#include <cstdint>
#include <memory>

#include "core/optim/loss_scale.h"
#include "core/scheme/post_validation.h"
#include "core/scheme/scheme.h"
#include "core/train/skipped_step.h"

namespace ringside {

/// Does a step's update by the scheme, and keeps what a later verdict needs: the loss scale, and
/// the running statistics of batch norms, of which there are two more copies at most. A step that
/// is skipped leaves both as the step found them, but for the factor of the scale; so does a
/// forward that has to be repeated, because the update before it was put right (PostValidation).
class StepValidation {
 public:
  /// The arguments outlive this object.
  StepValidation(const RankContext& context, const Model& model, SyncScheme& scheme,
                 LossScale& loss_scale);

  /// Before the first forward of a step.
  void begin_step();
  /// After its last backward: SyncScheme::step(). Returns false if the step is skipped. True may
  /// have to be taken back: see validate().
  bool update(std::int64_t step);
  /// Blocks until it is known whether the last update is right. Returns false if it was put right:
  /// parameters, loss scale and statistics are then those with which the next step begins, and
  /// forward, if it has begun, must begin anew. Called before the next backward, and before
  /// anything but forward uses the parameters.
  bool validate();

 private:
  PostValidation* early() const;
  void put_right(bool undone);

  const RankContext& context_;
  SyncScheme& scheme_;
  LossScale& loss_scale_;
  bool skips_;                       // steps that are not finite leave the statistics as they were
  LossScale::State scale_before_{};  // the last update
  std::unique_ptr<SkippedStep> last_, begun_;  // the last step, and the one after it
  bool has_begun_ = false;                     // the one after it, before the last is validated
};

}  // namespace ringside
