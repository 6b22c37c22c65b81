// Rows of each sample, by their positions: a layer. See core/nn/layers.h for what all layers do.
#pragma once

#include "core/nn/unit.h"

namespace ringside {

class TakeRows {
 public:
  explicit TakeRows(const Unit& unit) : unit_(unit) {}

  /// [B, T, C] and int32 positions [B, P] in [0, T) -> [B * P, C]
  Tensor forward(const Tensor& x, const Tensor& positions, const Pass& pass);
  /// [B * P, C] -> [B, T, C], 0 where nothing was taken.
  Tensor backward(const Tensor& dy);

 private:
  const Unit& unit_;
  Shape in_;
  Tensor positions_;
};

}  // namespace ringside
