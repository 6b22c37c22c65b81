// Flat operations: elementwise, on ranges of any length, thread-safe. The bits of an element do not
// depend on its place in the range, so a shard gets the same bits as the same elements of the whole
// tensor. See core/device/ops.h.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace ringside {

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
/// out = in_scale * in + out_scale * out. If out_scale is 0, `out` is not read.
struct Blend {
  Tensor in{}, out{};
  float in_scale = 1, out_scale = 0;
};
/// out = in / by. `out` may be `in`.
struct Divide {
  Tensor in{};
  Tensor by{};  // [1] fp32
  Tensor out{};
};
/// Corrects a gradient g that was computed from the values `read`, while the values are `now`
/// meanwhile (Zheng et al., ICML 2017): out = g + scale * g * g * (now - read), in this order, each
/// operation rounded to fp32, and the result to the dtype of all. `out` may be `gradients`.
struct CompensateDelay {
  Tensor gradients{}, now{}, read{}, out{};
  float scale = 0;
};
/// Converts from fp32 to another dtype or to fp32 from another dtype. Copies if both tensors have
/// the same dtype. With several `rows`, `in` is that many rows of equal length one after the other,
/// and row r begins at element r * `stride` of `out`; what lies between the rows of `out` is left
/// alone.
struct Cast {
  Tensor in{}, out{};
  std::int64_t rows = 1, stride = 0;
};
/// out = the sum of the squares, stored as ExactSum::store() does. The sum is exact on CPUs; GPUs
/// add up in fp64, always in the same order. The sum is not finite if and only if an element is not
/// finite.
struct SumOfSquares {
  Tensor in{};
  Tensor out{};  // [ExactSum::digits] fp64
};
/// out = in * mask / (1 - probability); `in` and `out` may be the same tensor. Element i has the
/// number e = `first` + i, and is kept if word e % 4 of philox({lower half of e / 4, upper half of
/// e / 4, layer, step}, key) is at least probability * 2^32; the key is dropout_key(`seed`)
/// (core/num/random.h). So the mask does not depend on the rank. Backward is the same operation on
/// the gradient.
struct Dropout {
  Tensor in{}, out{};
  float probability = 0;  // [0, 1)
  std::uint64_t seed = 0;
  std::uint32_t layer = 0, step = 0;
  std::int64_t first = 0;
};

// All optimizers: gradients have the dtype of the parameters, or fp32. Parameters of 16 bits have
// fp32 `master` values, which are updated and then rounded to the parameters; for fp32 parameters
// `master` is empty. Gradients are multiplied by `gradient_scale` first. `step` counts from 1.
// Below, p is a parameter, g its gradient, and decay is `weight_decay`.

/// AdamW (Loshchilov 2019, algorithm 2): p -= lr * decay * p, then p -= lr * m^ / (sqrt(v^) +
/// epsilon). The moments m and v are moving averages of g and g^2; m^ and v^ are m and v with their
/// bias corrected.
struct AdamW {
  Tensor parameters{}, gradients{};
  Tensor master{};                         // fp32
  Tensor first_moment{}, second_moment{};  // fp32
  float lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float gradient_scale = 1;
  std::int64_t step = 1;
};
/// SGD with momentum as PyTorch defines it: g += decay * p; u = g at step 1, else
/// momentum * u + g; p -= lr * u, or lr * (g + momentum * u) with `nesterov`. `velocity` (fp32) is
/// optional where momentum is 0.
struct Sgd {
  Tensor parameters{}, gradients{}, master{}, velocity{};
  float lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  float gradient_scale = 1;
  std::int64_t step = 1;
};
/// LAMB (You et al. 2020, algorithm 2) in two operations. LambMoments updates the moments m and v
/// as AdamW does, and sums the squares of p and of the direction u = m^ / (sqrt(v^) + epsilon) +
/// decay * p. From these sums the caller computes the layer's trust ratio, and with it `rate`.
/// LambUpdate then computes p -= rate * u.
struct LambMoments {
  Tensor parameters{}, gradients{}, master{}, first_moment{}, second_moment{};
  float beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float gradient_scale = 1;
  std::int64_t step = 1;
  Tensor squares{};  // [2, ExactSum::digits] fp64: sums of p^2 and u^2, as in SumOfSquares
};
struct LambUpdate {
  Tensor parameters{}, master{}, first_moment{}, second_moment{};
  float rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;
};

}  // namespace ringside
