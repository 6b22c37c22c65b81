// Matrix products without cuBLASLt, for shapes that it has no algorithm for.
#pragma once

#include "core/device/cuda/module/context.h"
#include "core/device/cuda/module/product.h"

namespace ringside::cuda {

/// Enqueues the product, whose epilogue is Epilogue::none, in any shape and alignment. A thread an
/// element of c, so it is slow; sums run in fp32 in the order of k.
void plain_product(const Context& context, const Product& product);

}  // namespace ringside::cuda
