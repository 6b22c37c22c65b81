// Sums over the rows of a matrix, for the gradients of biases and of a norm's weights.
#pragma once

#include "core/device/cuda/runtime/context.h"

namespace ringside::cuda {

/// out[c] = the sum of in[r][c] over all rows r. `in` is [M, C] and `out` is [C]; both have the
/// same dtype. Values are added in fp32, in an order that depends only on M, C, the dtype, the
/// alignment of `in` and the device.
void sum_columns(const Context& context, const Tensor& in, const Tensor& out);

/// The second half of such a sum: adds up the P rows of partial sums in `parts`, fp32 [P, columns].
/// If `first` has n elements, the sums of the first n columns go to `first`, and the sums of the
/// other columns go to `second`, which may be empty.
void sum_parts(const Context& context, const Tensor& parts, const Tensor& first,
               const Tensor& second);

}  // namespace ringside::cuda
