// Matrix products without cuBLASLt, for shapes that cuBLASLt has no algorithm for.
#pragma once

#include "core/device/cuda/kernels/product.h"
#include "core/device/cuda/runtime/context.h"

namespace ringside::cuda {

/// Enqueues a product of any shape and alignment, whose epilogue must be Epilogue::none. It is
/// slow: each thread computes one element of c, and adds up its products in order, in fp32.
void plain_product(const Context& context, const Product& product);

}  // namespace ringside::cuda
