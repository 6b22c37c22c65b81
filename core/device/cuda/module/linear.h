// What layers that are products have in common.
#pragma once

#include "core/device/cuda/module/matmul.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// out = the product + bias, rounded once where cuBLASLt can do both; `bias` [n] may be empty. The
/// product is given without c and epilogue.
void product_and_bias(const Context& context, Matmul& matmul, Product product, const Tensor& bias,
                      const Tensor& out);

}  // namespace ringside::cuda
