// Pooling: layers on images, channels last. See core/nn/layers.h for what all layers do.
#pragma once

#include "core/nn/slot.h"

namespace ringside {

/// A window of size x size positions; `padding` positions surround the image.
struct Window2d {
  std::int64_t size = 2, stride = 2, padding = 0;
};

/// The largest value of each window. Positions around the image are never the largest.
class MaxPool {
 public:
  MaxPool(Unit& unit, Window2d window) : unit_(unit), window_(window), kept_(unit) {}

  /// [B, H, W, C] -> [B, P, Q, C], P = (H + 2 * padding - size) / stride + 1.
  Tensor forward(const Tensor& x, const Pass& pass, Saved& saved);
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  struct Kept {
    Shape in;
    Tensor where;
  };

  Unit& unit_;
  Window2d window_;
  Slot<Kept> kept_;
};

/// The mean of each window. Positions around the image count as zeros.
class AverageWindows {
 public:
  AverageWindows(Unit& unit, Window2d window) : unit_(unit), window_(window), in_(unit) {}

  /// [B, H, W, C] -> [B, P, Q, C], with P and Q as in MaxPool.
  Tensor forward(const Tensor& x, const Pass& pass, Saved& saved);
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  Unit& unit_;
  Window2d window_;
  Slot<Shape> in_;
};

/// The mean over all positions of an image.
class AveragePool {
 public:
  explicit AveragePool(Unit& unit) : unit_(unit), in_(unit) {}

  /// [B, H, W, C] -> [B, C]
  Tensor forward(const Tensor& x, const Pass& pass, Saved& saved);
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  Unit& unit_;
  Slot<Shape> in_;
};

}  // namespace ringside
