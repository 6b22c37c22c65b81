// Norms over the last axis. See core/device/ops.h.
#pragma once

#include "core/tensor/tensor.h"

namespace ringside {

/// sum = x + residual; y = (sum - mean) * rstd * weight + bias, over the last axis; rstd =
/// 1 / sqrt(variance + epsilon).
struct LayerNormForward {
  Tensor x{};               // [M, C]
  Tensor residual{};        // [M, C], optional; without it the norm is of x, and `sum` stays empty
  Tensor weight{}, bias{};  // [C]
  Tensor sum{};             // [M, C], optional, may be the same tensor as x or residual
  Tensor y{};               // [M, C]
  Tensor mean{}, rstd{};    // [M] fp32
  float epsilon = 1e-5f;
};
/// dx = the gradient through the norm, plus dresidual if it is given.
struct LayerNormBackward {
  Tensor dy{};                // [M, C]
  Tensor x{};                 // [M, C], what was normalised: `sum` of the forward, or x
  Tensor weight{};            // [C]
  Tensor mean{}, rstd{};      // [M] fp32
  Tensor dresidual{};         // [M, C], optional, may be the same tensor as dx
  Tensor dx{};                // [M, C]
  Tensor dweight{}, dbias{};  // [C]
};

/// sum = x + residual; y = sum * rstd * weight, over the last axis; rstd =
/// 1 / sqrt(mean of sum^2 + epsilon) (Zhang and Sennrich 2019).
struct RmsNormForward {
  Tensor x{};         // [M, C]
  Tensor residual{};  // [M, C], optional; without it the norm is of x, and `sum` stays empty
  Tensor weight{};    // [C]
  Tensor sum{};       // [M, C], optional, may be the same tensor as x or residual
  Tensor y{};         // [M, C]
  Tensor rstd{};      // [M] fp32
  float epsilon = 1e-5f;
};
/// dx = the gradient through the norm, plus dresidual if it is given.
struct RmsNormBackward {
  Tensor dy{};         // [M, C]
  Tensor x{};          // [M, C], what was normalised: `sum` of the forward, or x
  Tensor weight{};     // [C]
  Tensor rstd{};       // [M] fp32
  Tensor dresidual{};  // [M, C], optional, may be the same tensor as dx
  Tensor dx{};         // [M, C]
  Tensor dweight{};    // [C]
};

}  // namespace ringside
