// Dropout: a layer. See core/nn/layers.h for what all layers do.
#pragma once

#include <optional>

#include "core/nn/unit.h"

namespace ringside {

/// Sets a share of the values to 0 and divides the others by what is left (Srivastava et al. 2014).
/// Which ones depends on the run's seed, the step, the names of unit and layer, and the place of
/// the value in the global batch: on no rank and no micro-batch. Nothing happens in evaluation.
class DropoutLayer {
 public:
  /// `probability` in [0, 1).
  DropoutLayer(const Unit& unit, const std::string& name, double probability);

  /// Of `samples` samples; overwrites `x`, which is the result. Keeps the pass alone.
  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass);
  /// A new tensor; `dy` itself where nothing was dropped.
  Tensor backward(const Tensor& dy);

 private:
  const Unit& unit_;
  float probability_;
  std::uint32_t layer_;
  std::optional<Dropout> dropped_;  // without tensors
};

}  // namespace ringside
