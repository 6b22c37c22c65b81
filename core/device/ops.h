// The operations that a device computes: one struct an operation, its operands by name.
//
// Extents: M rows, B samples, T positions, C width, V vocabulary, H heads, D = C / H.
// Floating-point operands are row-major and contiguous, and of the operation's dtype, fp32 or bf16,
// but for those that say fp32. Sums run in fp32 or better and are rounded once, to nearest even.
// Outputs are overwritten unless the operand says "added to". Operands marked optional may be empty
// tensors. Operands do not alias unless an operation says so. Every device has the flat operations
// in both dtypes; in which ones it has the layers, its row in the registry says.
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
/// The same values in another dtype: fp32 to bf16 or back.
struct Cast {
  Tensor in{}, out{};
};
/// out[0] = the sum of the squares, in an order of the device's own but always the same.
struct SumOfSquares {
  Tensor in{};
  Tensor out{};  // [1] fp32
};
/// AdamW (Loshchilov 2019, algorithm 2), `step` counts from 1:
/// p -= lr * decay * p; m, v moving averages; p -= lr * m^ / (sqrt(v^) + epsilon).
/// Parameters and gradients have one dtype. bf16 parameters have fp32 `master` values, which are
/// updated and then rounded to the parameters; fp32 ones are their own and `master` is empty.
struct AdamW {
  Tensor parameters{}, gradients{};
  Tensor master{};                         // fp32
  Tensor first_moment{}, second_moment{};  // fp32
  float lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;
};
/// SGD with momentum as PyTorch defines it: g += decay * p; u = g at step 1, else
/// momentum * u + g; p -= lr * u. `velocity` (fp32) is optional where momentum is 0; `master` as
/// above.
struct Sgd {
  Tensor parameters{}, gradients{}, master{}, velocity{};
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
  Tensor mean{}, rstd{};    // [M] fp32
};
/// dx = gradient through the norm (+ dresidual where given).
struct LayerNormBackward {
  Tensor dy{};                // [M, C]
  Tensor x{};                 // [M, C] what was normalised (`sum` of the forward, or x)
  Tensor weight{};            // [C]
  Tensor mean{}, rstd{};      // [M] fp32
  Tensor dresidual{};         // [M, C], optional, may be the same tensor as dx
  Tensor dx{};                // [M, C]
  Tensor dweight{}, dbias{};  // [C]
};

/// Scaled dot-product attention per sample and head, scale 1 / sqrt(D).
struct AttentionForward {
  Tensor qkv{};  // [B, T, 3, H, D]
  bool causal = true;
  Tensor y{};  // [B, T, H, D]
  // [B, H, T] fp32, log-sum-exp of each row of scores; backward recomputes from it
  Tensor statistics{};
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
  Tensor losses{};   // [M] fp32
  Tensor dlogits{};  // [M, V], optional, may be the same tensor as logits
};

}  // namespace ringside
