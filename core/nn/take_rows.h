// TakeRows: a layer that takes rows of each sample by position. See core/nn/layers.h for what all
// layers do.
#pragma once

#include "core/nn/unit.h"

namespace ringside {

class TakeRows {
 public:
  explicit TakeRows(const Unit& unit) : unit_(unit) {}

  /// Maps x [B, T, C] (B samples of T rows of width C) and int32 positions [B, P] in [0, T) to
  /// [B * P, C], the P rows of each sample at its positions.
  Tensor forward(const Tensor& x, const Tensor& positions, const Pass& pass);
  /// Maps [B * P, C] to [B, T, C], which is 0 where no row was taken.
  Tensor backward(const Tensor& dy);

 private:
  const Unit& unit_;
  Shape in_;
  Tensor positions_;
};

}  // namespace ringside
