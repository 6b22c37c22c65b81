// The loss of some samples, and the gradient of their logits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/device.h"
#include "core/models/model.h"

namespace ringside {

/// What a loss is made of: the terms of the model, each divided by the rows of the global batch.
struct LossTerms {
  std::vector<LossTerm> terms;
  std::int64_t global_batch = 1;
  float gradient_scale = 1;  // of the gradient alone (loss scaling of fp16)
};

/// Shares of a global batch's mean.
struct LossValue {
  double loss = 0;        // the sum of all terms
  double first_term = 0;  // the loss of the first term alone, in evaluation
  double accuracy = 0;    // of the first term, in evaluation
};

/// What some samples add to the loss. It may stand on the device still: value_of() brings it.
struct Loss {
  /// Of one term: what is to be added up, fp32, times `scale`.
  struct Rows {
    Tensor losses{}, hits{};  // hits: of the first term, in evaluation
    float scale = 0;
  };
  LossValue known{};  // to the host
  std::vector<Rows> rows{};
  Tensor gradient{};  // of the logits; empty in evaluation
};

/// Rows are summed in fp64, in order. Blocks until they are computed.
LossValue value_of(Device& device, const Loss& loss);

/// The loss of `logits` (see Model) against `targets`. The gradient takes the place of the logits.
/// Does not wait for the device.
Loss cross_entropy(Device& device, const Tensor& logits, const Tensor& targets,
                   const LossTerms& terms, bool with_gradient);

}  // namespace ringside
