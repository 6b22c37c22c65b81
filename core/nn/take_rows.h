// TakeRows: a layer that takes rows of each sample by position. See core/nn/layers.h for what all
// layers do.
#pragma once

#include "core/nn/slot.h"

namespace ringside {

class TakeRows {
 public:
  explicit TakeRows(Unit& unit) : unit_(unit), kept_(unit) {}

  /// Maps x [B, T, C] (B samples of T rows of width C) and int32 positions [B, P] in [0, T) to
  /// [B * P, C], the P rows of each sample at its positions.
  Tensor forward(const Tensor& x, const Tensor& positions, const Pass& pass, Saved& saved);
  /// Maps [B * P, C] to [B, T, C], which is 0 where no row was taken.
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  struct Kept {
    Shape in;
    Tensor positions;
  };

  Unit& unit_;
  Slot<Kept> kept_;
};

}  // namespace ringside
