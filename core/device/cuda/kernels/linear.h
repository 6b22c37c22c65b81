// A matrix product plus bias, for linear layers and convolutions.
#pragma once

#include "core/device/cuda/kernels/matmul.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// Computes out = product + bias. Where cuBLASLt can add the bias, the result is rounded only once.
/// `bias` [n] may be empty. The caller leaves c and epilogue of `product` unset.
void product_and_bias(const Context& context, Matmul& matmul, Product product, const Tensor& bias,
                      const Tensor& out);

}  // namespace ringside::cuda
