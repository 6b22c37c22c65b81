// Pooling: layers on images, channels last. See core/nn/layers.h for what all layers do.
#pragma once

#include "core/nn/convolution.h"

namespace ringside {

/// The largest value of each window.
class MaxPool {
 public:
  MaxPool(Unit& unit, Kernel2d window) : unit_(unit), window_(window) {}

  /// [B, H, W, C] -> [B, P, Q, C], P = (H + 2 * padding - size) / stride + 1.
  Tensor forward(const Tensor& x, const Pass& pass);
  Tensor backward(const Tensor& dy);

 private:
  Unit& unit_;
  Kernel2d window_;
  Shape in_;
  Tensor where_;
};

/// The mean over all positions of an image.
class AveragePool {
 public:
  explicit AveragePool(Unit& unit) : unit_(unit) {}

  /// [B, H, W, C] -> [B, C]
  Tensor forward(const Tensor& x, const Pass& pass);
  Tensor backward(const Tensor& dy);

 private:
  Unit& unit_;
  Shape in_;
};

}  // namespace ringside
