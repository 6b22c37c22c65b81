// Convolutions as products of windows of the image with packed weights.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Whether these products are faster than oneDNN 2. With vectors of 32 bytes oneDNN reaches about
/// three quarters of the peak on channels-last images, and these products nine tenths. Where
/// winograd_is_faster() is true as well, Winograd's products are faster than both. The second
/// function answers for the gradient of the image.
bool windows_are_faster(const ConvolutionForward& op);
bool windows_are_faster(const ConvolutionBackward& op);

/// Computes op.y from fp32 operands.
void convolve_windows(const Context& context, const ConvolutionForward& op);
/// Computes op.dx from fp32 operands at stride 1. op.dy must already be the gradient before the
/// relu.
void image_gradient_by_windows(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
