// Sums over the rows of a matrix, for the gradients of biases and of a norm's weights.
#pragma once

#include "core/device/cuda/module/context.h"

namespace ringside::cuda {

/// out[c] = the sum of in[r][c] over all rows r. `in` is [M, C] and `out` [C], of one dtype. Sums
/// run in fp32, in an order that depends on M, C, the dtype, the alignment of `in` and the device
/// alone.
void sum_columns(const Context& context, const Tensor& in, const Tensor& out);

/// The second half of such a sum: adds up the rows of the partial sums `parts`, fp32 [P, columns].
/// The sums of as many columns as `first` has elements go to `first`, those of the other columns to
/// `second`, which may be empty.
void sum_parts(const Context& context, const Tensor& parts, const Tensor& first,
               const Tensor& second);

}  // namespace ringside::cuda
