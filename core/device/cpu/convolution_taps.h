// The weight gradient of a convolution as one matrix product for each position (row and column) of
// the kernel.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Whether these products are faster than oneDNN. They are if images are so small that much of a
/// window lies in the padding, which these products leave out, or if the stride is above 1.
bool taps_are_faster(const ConvolutionBackward& op);

/// Computes op.dweight from fp32 operands. op.dy must already be the gradient before the relu.
void weight_gradient_by_taps(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
