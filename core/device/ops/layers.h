// Operations of layers on rows. See core/device/ops.h.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace ringside {

enum class Activation : std::uint8_t {
  none,
  relu,
  gelu,      // tanh form (Hendrycks 2016)
  gelu_erf,  // x times the normal distribution function of x
  tanh
};

/// y = activation(x * weight^T + bias); `pre` receives the value before the activation.
struct LinearForward {
  Tensor x{};       // [M, in]
  Tensor weight{};  // [out, in]
  Tensor bias{};    // [out], optional
  Activation activation = Activation::none;
  Tensor pre{};  // [M, out], needed if and only if there is an activation
  Tensor y{};    // [M, out]
};
/// With an activation, `dy` is overwritten by the gradient of `pre`. An operation for dx, and then
/// one for dweight and dbias without the activation, give the same bits as one for all of them.
struct LinearBackward {
  Tensor dy{};      // [M, out]
  Tensor x{};       // [M, in], needed for dweight
  Tensor weight{};  // [out, in], needed for dx
  Activation activation = Activation::none;
  Tensor pre{};      // [M, out], as in the forward
  Tensor dx{};       // [M, in], optional
  Tensor dweight{};  // [out, in], optional
  Tensor dbias{};    // [out], optional; only with dweight
};

/// y = token_table[tokens] + position_table[t] for position t of a sample. Tokens lie in [0, V),
/// which is checked where data enters the program.
struct EmbeddingForward {
  Tensor tokens{};          // [B, T] int32
  Tensor token_table{};     // [V, C]
  Tensor position_table{};  // [>= T, C], optional
  Tensor y{};               // [B * T, C]
};
struct EmbeddingBackward {
  Tensor tokens{};
  Tensor dy{};               // [B * T, C]
  Tensor dtoken_table{};     // [V, C]
  Tensor dposition_table{};  // optional; all rows are overwritten
};

/// SwiGLU (Shazeer 2020): y = silu(gate) * up, where silu(g) = g / (1 + e^-g), and each row of x is
/// the row's gates, followed by as many values `up`.
struct SwiGluForward {
  Tensor x{};  // [M, 2 * F]
  Tensor y{};  // [M, F]
};
struct SwiGluBackward {
  Tensor dy{};  // [M, F]
  Tensor x{};   // [M, 2 * F]
  Tensor dx{};  // [M, 2 * F], may be the same tensor as x
};

/// losses[i] = -log softmax(logits[i])[targets[i]] in nats; dlogits = scale * the gradient of
/// losses[i]. A row with a target below 0 has no loss, no hit and no gradient: all are 0.
struct CrossEntropy {
  Tensor logits{};   // [M, V]
  Tensor targets{};  // [M] int32
  float scale = 1;
  Tensor losses{};   // [M] fp32
  Tensor hits{};     // [M] fp32, optional: 1 if no logit is larger than the target's, else 0
  Tensor dlogits{};  // [M, V], optional, may be the same tensor as logits
};

/// y[b, p] = x[b, positions[b, p]]. Positions lie in [0, T).
struct TakeRowsForward {
  Tensor x{};          // [B, T, C]
  Tensor positions{};  // [B, P] int32
  Tensor y{};          // [B * P, C]
};
/// dx is 0 where no row was taken; gradients of rows taken twice add up in the order of p.
struct TakeRowsBackward {
  Tensor dy{};         // [B * P, C]
  Tensor positions{};  // [B, P] int32
  Tensor dx{};         // [B, T, C]
};

/// Copies columns of one matrix into another: out[m][to + c] = in[m][from + c] for c below
/// `columns`. The other columns of `out` are left alone.
struct CopyColumns {
  Tensor in{};   // [M, from + columns or more]
  Tensor out{};  // [M, to + columns or more], of the dtype of `in`
  std::int64_t from = 0, to = 0, columns = 0;
};

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
