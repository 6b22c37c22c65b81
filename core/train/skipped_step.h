// Steps that all workers skip because a loss or a gradient is not finite (train.skip_not_finite).
#pragma once

#include <vector>

#include "core/models/model.h"
#include "core/scheme/loss.h"

namespace ringside {

/// Keeps what forward changes, so that a step which is skipped leaves it as it was: the running
/// statistics of batch norms, in one more copy. The scheme and its optimizers change nothing by
/// themselves (SyncScheme::step).
class SkippedStep {
 public:
  /// The arguments outlive this object.
  SkippedStep(Device& device, const Model& model) : device_(device), model_(model) {}

  void begin_step();
  /// The step that began has been skipped.
  void put_back();

 private:
  Device& device_;
  const Model& model_;
  std::vector<std::vector<Tensor>> kept_;  // of each statistic, by micro-batch
};

/// Sets the gradient of losses that are not finite to NaN, so that it shows in the gradients, by
/// which all workers know of it. Blocks until the losses are computed.
void spoil_gradient(Device& device, const std::vector<Loss>& losses);

}  // namespace ringside
