// The operations that a device computes: one struct an operation, its operands by name.
//
// Extents: M rows, B samples, T positions, C width, V vocabulary, H heads, D = C / H.
// All floating-point operands are fp32, row-major, contiguous. Outputs are overwritten unless the
// operand says "added to". Operands marked optional may be empty tensors. Operands do not alias
// unless an operation says so.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace ringside {

enum class Activation : std::uint8_t { none, relu, gelu };  // gelu: tanh form (Hendrycks 2016)

// ---- flat operations: any length, elementwise, safe from any thread, and the bits of an element
// ---- do not depend on where in the range it stands (shards must agree with the whole).

struct Fill {
  Tensor out{};
  float value = 0;
};
struct Copy {
  Tensor in{}, out{};  // same bytes, any dtype
};
/// out += in
struct Add {
  Tensor in{}, out{};
};
/// AdamW (Loshchilov 2019, algorithm 2), `step` counts from 1:
/// p -= lr * decay * p; m, v moving averages; p -= lr * m^ / (sqrt(v^) + epsilon).
struct AdamW {
  Tensor parameters{}, gradients{}, first_moment{}, second_moment{};
  float lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;
};
/// SGD with momentum as PyTorch defines it: g += decay * p; u = g at step 1, else
/// momentum * u + g; p -= lr * u. `velocity` is optional where momentum is 0.
struct Sgd {
  Tensor parameters{}, gradients{}, velocity{};
  float lr = 0, momentum = 0, weight_decay = 0;
  std::int64_t step = 1;
};

// ---- layers

/// y = activation(x weight^T + bias); `pre` receives the value before the activation.
struct LinearForward {
  Tensor x{};       // [M, in]
  Tensor weight{};  // [out, in]
  Tensor bias{};    // [out], optional
  Activation activation = Activation::none;
  Tensor pre{};  // [M, out], wanted if and only if there is an activation
  Tensor y{};    // [M, out]
};
/// With an activation `dy` is overwritten by the gradient of `pre`.
struct LinearBackward {
  Tensor dy{};      // [M, out]
  Tensor x{};       // [M, in]
  Tensor weight{};  // [out, in]
  Activation activation = Activation::none;
  Tensor pre{};      // [M, out], as in the forward
  Tensor dx{};       // [M, in], optional
  Tensor dweight{};  // [out, in]
  Tensor dbias{};    // [out], optional
};

/// y = token_table[tokens] + position_table[t]. Tokens lie in [0, V): checked where data enters.
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
  Tensor dposition_table{};  // optional, all rows overwritten
};

/// sum = x + residual; y = (sum - mean) * rstd * weight + bias, over the last axis, epsilon 1e-5.
struct LayerNormForward {
  Tensor x{};               // [M, C]
  Tensor residual{};        // [M, C], optional; without it sum is x itself and `sum` stays empty
  Tensor weight{}, bias{};  // [C]
  Tensor sum{};             // [M, C], optional, may be the same tensor as x or residual
  Tensor y{};               // [M, C]
  Tensor mean{}, rstd{};    // [M]
};
/// dx = gradient through the norm (+ dresidual where given).
struct LayerNormBackward {
  Tensor dy{};                // [M, C]
  Tensor x{};                 // [M, C] what was normalised (`sum` of the forward, or x)
  Tensor weight{};            // [C]
  Tensor mean{}, rstd{};      // [M]
  Tensor dresidual{};         // [M, C], optional, may be the same tensor as dx
  Tensor dx{};                // [M, C]
  Tensor dweight{}, dbias{};  // [C]
};

/// Scaled dot-product attention per sample and head, scale 1 / sqrt(D).
struct AttentionForward {
  Tensor qkv{};  // [B, T, 3, H, D]
  bool causal = true;
  Tensor y{};           // [B, T, H, D]
  Tensor statistics{};  // [B, H, T] log-sum-exp of each row of scores; backward recomputes from it
};
struct AttentionBackward {
  Tensor dy{};   // [B, T, H, D]
  Tensor qkv{};  // [B, T, 3, H, D]
  bool causal = true;
  Tensor y{}, statistics{};  // as in the forward
  Tensor dqkv{};             // [B, T, 3, H, D]
};

/// losses[i] = -log softmax(logits[i])[targets[i]] in nats; dlogits = scale * its gradient.
struct CrossEntropy {
  Tensor logits{};   // [M, V]
  Tensor targets{};  // [M] int32
  float scale = 1;
  Tensor losses{};   // [M]
  Tensor dlogits{};  // [M, V], optional, may be the same tensor as logits
};

}  // namespace ringside
