// Convolutions of 3x3 weights at stride 1 by Winograd's minimal filtering
// (core/device/cpu/winograd.h). Multiplying the transformed tiles of a block of images by the
// transformed weights takes 16 matrix products, one for each element of a transformed tile.
#pragma once

#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {

/// Whether Winograd's algorithm is faster than all other ways. For each tile, 16 multiplications
/// take the place of 36. But the weights are transformed at every call, and images whose extents
/// are odd have tiles that are not full. The answer does not depend on the number of images, so
/// that an image has the same results in every batch. For images of 4x4 with 512 channels, for
/// example, the answer is always true, although the algorithm is slower for fewer than about eight
/// of them.
bool winograd_is_faster(const ConvolutionForward& op);
bool winograd_is_faster(const ConvolutionBackward& op);

/// Computes op.y from fp32 operands.
void convolve_by_winograd(const Context& context, const ConvolutionForward& op);
/// Compute op.dx and op.dweight from fp32 operands. op.dy must be the gradient of the relu's
/// input: the relu's backward has been computed already.
void image_gradient_by_winograd(const Context& context, const ConvolutionBackward& op);
void weight_gradient_by_winograd(const Context& context, const ConvolutionBackward& op);

}  // namespace ringside::cpu
