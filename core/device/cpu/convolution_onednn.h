// Convolutions by oneDNN, of any shape, in any number of groups, in fp32 or bf16.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Computes op.y.
void convolve_by_onednn(const Context& context, const ConvolutionForward& op);
/// Compute op.dx, and op.dweight with op.dbias. op.dy must be the gradient of the relu's input: the
/// relu's backward has been computed already. All three throw Error if oneDNN refuses the
/// operation.
void image_gradient_by_onednn(const Context& context, const ConvolutionBackward& op);
void weight_gradient_by_onednn(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
