// Layers of Llama and of later decoders.
#pragma once

#include <string>

#include "core/nn/slot.h"

namespace ringside {

/// Divides each row by the root of the mean of its squares (Zhang and Sennrich 2019). Parameter:
/// "NAME.weight" [width], initially 1.
class RmsNorm {
 public:
  RmsNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon = 1e-5f);

  /// Maps [M, width] to [M, width]. With a `residual`, x is overwritten by x + residual, and that
  /// sum is normalised.
  Tensor forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved);
  /// As LayerNorm::backward().
  Tensor backward(const Tensor& dy, const Tensor& dresidual, Saved& saved);
  /// As LayerNorm::again().
  Tensor again(Saved& saved);

 private:
  struct Kept {
    Tensor x, rstd;
  };

  Unit& unit_;
  std::int64_t width_;
  float epsilon_;
  std::size_t weight_;
  Slot<Kept> kept_;
};

/// The gate of a SwiGLU (Shazeer 2020): multiplies the second half of each row by silu of the first
/// half. No parameters.
class SwiGlu {
 public:
  SwiGlu(Unit& unit, std::int64_t width) : unit_(unit), width_(width), x_(unit) {}

  /// Maps [M, 2 * width] to [M, width].
  Tensor forward(const Tensor& x, const Pass& pass, Saved& saved);
  /// Maps [M, width] to [M, 2 * width], in the memory of the forward's x.
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  Unit& unit_;
  std::int64_t width_;
  Slot<Tensor> x_;
};

}  // namespace ringside
