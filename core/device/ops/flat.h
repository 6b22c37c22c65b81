// Flat operations: any length, elementwise, safe from any thread, and the bits of an element do not
// depend on where in the range it stands (shards must agree with the whole). See core/device/ops.h.
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
/// out = in_scale * in + out_scale * out, fp32. Where out_scale is 0, `out` is not read.
struct Blend {
  Tensor in{}, out{};
  float in_scale = 1, out_scale = 0;
};
/// The same values in another dtype, from fp32 or to it; or the same dtype, which copies.
struct Cast {
  Tensor in{}, out{};
};
/// out[0] = the sum of the squares, added up in fp64 in an order of the device's own but always the
/// same. Not finite if and only if an element is not.
struct SumOfSquares {
  Tensor in{};
  Tensor out{};  // [1] fp64
};
/// out = in * mask / (1 - probability), in place too. Element i stands at e = `first` + i, and is
/// kept if word e % 4 of philox({e / 4, its upper half, layer, step}, key of `seed`) (core/base/
/// random.h: dropout_key) is not below probability * 2^32: what is dropped depends on no rank. Its
/// own backward.
struct Dropout {
  Tensor in{}, out{};
  float probability = 0;  // [0, 1)
  std::uint64_t seed = 0;
  std::uint32_t layer = 0, step = 0;
  std::int64_t first = 0;
};

// Of all optimizers: parameters and gradients have one dtype. 16-bit parameters have fp32 `master`
// values, which are updated and then rounded to the parameters; fp32 ones are their own and
// `master` is empty. Gradients count times `gradient_scale`. `step` counts from 1.

/// AdamW (Loshchilov 2019, algorithm 2):
/// p -= lr * decay * p; m, v moving averages; p -= lr * m^ / (sqrt(v^) + epsilon).
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
/// LAMB (You et al. 2020, algorithm 2) in two: the moments m, v as AdamW's, and what the layer's
/// trust ratio is made of, with the direction u = m^ / (sqrt(v^) + epsilon) + decay * p; then
/// p -= rate * u.
struct LambMoments {
  Tensor parameters{}, gradients{}, master{}, first_moment{}, second_moment{};
  float beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float gradient_scale = 1;
  std::int64_t step = 1;
  Tensor squares{};  // [2] fp64: the sum of p^2, of u^2; added up as SumOfSquares does
};
struct LambUpdate {
  Tensor parameters{}, master{}, first_moment{}, second_moment{};
  float rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;
};

}  // namespace ringside
