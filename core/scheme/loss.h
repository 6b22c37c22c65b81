// The loss of some samples, and the gradient of their logits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/fields.h"
#include "core/device/device.h"
#include "core/models/model.h"

namespace ringside {

/// The terms of a model's loss, each divided by the number of rows of the global batch.
struct LossTerms {
  std::vector<LossTerm> terms;
  std::int64_t global_batch = 1;
  float gradient_scale = 1;  // of the gradient alone (loss scaling of fp16)
};

/// What some samples contribute to the means over the global batch.
struct LossValue {
  double loss = 0;        // the sum of all terms
  double first_term = 0;  // the loss of the first term alone, in evaluation
  double accuracy = 0;    // of the first term, in evaluation
};

Fields fields_of(LossValue& loss);

/// What some samples add to the loss. The numbers may still be on the device: value_of() fetches
/// them.
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
