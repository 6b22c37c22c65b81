// Sums over the rows of a matrix: gradients of biases and of a norm's weights.
#pragma once

#include "core/device/cuda/module/context.h"

namespace ringside::cuda {

/// out[c] = the sum of in[r][c] over the rows r. `in` is [M, C], `out` [C], of one dtype; sums run
/// in fp32 in an order that depends on M, C and the device alone.
void sum_columns(const Context& context, const Tensor& in, const Tensor& out);

/// The second half of such a sum: `parts` is [P, columns] fp32, columns being those of `first` and
/// then of `second` (which may be empty); each receives the sums of its own.
void sum_parts(const Context& context, const Tensor& parts, const Tensor& first,
               const Tensor& second);

}  // namespace ringside::cuda
