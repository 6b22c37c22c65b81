// The weight gradient of a convolution as one matrix product a place of the kernel.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Whether that is faster than oneDNN: where images are so small that much of a window lies in the
/// padding, which these products leave out, or where windows are strided.
bool taps_are_faster(const ConvolutionBackward& op);

/// op.dweight of fp32 operands; the relu lies behind.
void weight_gradient_by_taps(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
