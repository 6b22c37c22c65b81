// The loss of some samples, and the gradient of their logits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/device.h"
#include "core/models/model.h"
#include "core/observe/loss_value.h"

namespace ringside {

/// The terms of a model's loss, each divided by the number of rows of the global batch. Rows
/// without a target (no_target) do not count.
struct LossTerms {
  std::vector<LossTerm> terms;
  std::int64_t global_batch = 1;
  float gradient_scale = 1;  // of the gradient alone (loss scaling of fp16)
  /// The gradient is that of the mean loss of this many samples; 0: of the global batch.
  std::int64_t gradient_batch = 0;
  /// If samples differ in length: the number of targets of the global batch, and of the samples
  /// over which the gradient is a mean; all terms are then means over these. 0: every sample has as
  /// many targets as the terms have rows.
  std::int64_t targets = 0, gradient_targets = 0;
};

/// The contribution of some samples to the loss. The numbers may still be on the device: value_of()
/// fetches them.
struct Loss {
  /// The rows of one term, fp32: their sum times `scale` is the term.
  struct Rows {
    Tensor losses{}, hits{};  // hits: whether the row is right; for the first term, in evaluation
    float scale = 0;
  };
  LossValue known{};  // the part that is on the host already
  std::vector<Rows> rows{};
  Tensor gradient{};  // of the logits; empty in evaluation
};

/// Returns the value of `loss`; rows are summed in fp64, in order. Blocks until they are computed.
LossValue value_of(Device& device, const Loss& loss);

/// Computes the loss of `logits` (see Model) against `targets`. The gradient overwrites the logits.
/// Does not wait for the device.
Loss cross_entropy(Device& device, const Tensor& logits, const Tensor& targets,
                   const LossTerms& terms, bool with_gradient);

}  // namespace ringside
