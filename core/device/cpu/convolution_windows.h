// Convolutions as products of windows of the image with packed weights.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Whether these products are faster than oneDNN 2; for a backward operation, whether they compute
/// the gradient of the image faster. With vectors of 32 bytes and channels-last images, oneDNN
/// reaches about three quarters of the processor's peak, and these products nine tenths. Where
/// winograd_is_faster() is true as well, Winograd's products are faster than both.
bool windows_are_faster(const ConvolutionForward& op);
bool windows_are_faster(const ConvolutionBackward& op);

/// Computes op.y from fp32 operands.
void convolve_by_windows(const Context& context, const ConvolutionForward& op);
/// Computes op.dx from fp32 operands at stride 1. op.dy must already be the gradient of the values
/// before the relu.
void image_gradient_by_windows(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
