// Activations and biases, for shapes where the matrix product cannot include them.
#pragma once

#include "core/device/cuda/runtime/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// y = activation(pre). The activation must not be Activation::none; y may be pre.
void activate(const Context& context, Activation activation, const Tensor& pre, const Tensor& y);
/// dy *= activation'(pre).
void deactivate(const Context& context, Activation activation, const Tensor& pre, const Tensor& dy);
/// x[r][c] += bias[c]; `x` is [M, C], `bias` [C].
void add_bias(const Context& context, const Tensor& bias, const Tensor& x);

}  // namespace ringside::cuda
