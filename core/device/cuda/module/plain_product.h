// Matrix products without cuBLASLt, for shapes that cuBLASLt has no algorithm for.
#pragma once

#include "core/device/cuda/module/context.h"
#include "core/device/cuda/module/product.h"

namespace ringside::cuda {

/// Enqueues a product of any shape and alignment, whose epilogue must be Epilogue::none. Slow: each
/// thread computes one element of c. Sums run in fp32 in the order of k.
void plain_product(const Context& context, const Product& product);

}  // namespace ringside::cuda
