// Convolutions as products of windows of the image with packed weights.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Whether these products are faster than oneDNN 2. With vectors of 32 bytes oneDNN reaches about
/// three quarters of the peak on channels-last images, and these products nine tenths. Where
/// winograd_is_faster() too, that is faster than both. The second function answers for the gradient
/// of the image.
bool windows_are_faster(const ConvolutionForward& op);
bool windows_are_faster(const ConvolutionBackward& op);

/// op.y of fp32 operands.
void convolve_windows(const Context& context, const ConvolutionForward& op);
/// op.dx of fp32 operands and stride 1; the relu lies behind.
void image_gradient_by_windows(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
