// Dropout: a layer. See core/nn/layers.h for what all layers do.
#pragma once

#include "core/nn/slot.h"

namespace ringside {

/// Sets values to 0 with the given probability and divides the others by (1 - probability)
/// (Srivastava et al. 2014). Which values are dropped depends on the run's seed, the step, the
/// names of unit and layer, and the value's place in the global batch; it does not depend on the
/// rank or the micro-batch. In evaluation nothing is dropped.
class DropoutLayer {
 public:
  /// `probability` in [0, 1).
  DropoutLayer(Unit& unit, const std::string& name, double probability);

  /// `x` holds `samples` samples. Overwrites `x` and returns it. Keeps no tensor for backward().
  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved);
  /// Returns a new tensor, or `dy` itself if nothing was dropped.
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  const Unit& unit_;
  float probability_;
  std::uint32_t layer_;
  Slot<Dropout> dropped_;  // what forward() did, without its tensors
};

}  // namespace ringside
