// Patches turn a convolution into a matrix product. Each patch is a row of a matrix: the part of an
// image that lies under the filter at one position of the output.
#pragma once

#include "core/device/cuda/module/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// Extents of a convolution, named as in core/device/ops/images.h.
struct ConvolutionExtents {
  std::int64_t images, height, width, channels;       // B, H, W, C
  std::int64_t filters, filter_height, filter_width;  // K, R, S
  std::int64_t out_height, out_width;                 // P, Q
  std::int64_t stride, padding;

  static ConvolutionExtents of(const Tensor& x, const Tensor& weight, const Tensor& y,
                               std::int64_t stride, std::int64_t padding) {
    return {x.shape()[0],
            x.shape()[1],
            x.shape()[2],
            x.shape()[3],
            weight.shape()[0],
            weight.shape()[1],
            weight.shape()[2],
            y.shape()[1],
            y.shape()[2],
            stride,
            padding};
  }
  /// Number of elements of a patch.
  std::int64_t patch() const { return filter_height * filter_width * channels; }
  std::int64_t positions() const { return out_height * out_width; }  // for each image
  /// Whether the patches are the pixels of the images, so that x itself is the matrix.
  bool is_product() const {
    return filter_height == 1 && filter_width == 1 && stride == 1 && padding == 0;
  }
  auto operator<=>(const ConvolutionExtents&) const = default;
};

/// Writes patches[(b, p, q)][(r, s, c)] for images [first, first + images) of x. Both tensors have
/// the same dtype.
void take_patches(const Context& context, const ConvolutionExtents& extents, const Tensor& x,
                  std::int64_t first, std::int64_t images, const Tensor& patches);
/// The reverse for images [first, first + images) of dx: each pixel becomes the sum of its copies
/// in `patches` (fp32), added in the order of (r, s).
void add_patches(const Context& context, const ConvolutionExtents& extents, const Tensor& patches,
                 std::int64_t first, std::int64_t images, const Tensor& dx);

}  // namespace ringside::cuda
