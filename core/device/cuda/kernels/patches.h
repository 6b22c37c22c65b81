// Patches turn a convolution into a matrix product. Each patch is a row of a matrix: the part of an
// image that lies under the filter at one position of the output.
#pragma once

#include "core/device/cuda/runtime/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// Extents of a convolution, named as in core/device/ops/images.h.
struct ConvolutionExtents {
  std::int64_t images, height, width, channels;       // B, H, W, C
  std::int64_t filters, filter_height, filter_width;  // K, R, S
  std::int64_t out_height, out_width;                 // P, Q
  std::int64_t stride, padding_rows, padding_columns;
  std::int64_t groups;  // G

  static ConvolutionExtents of(const Tensor& x, const Tensor& weight, const Tensor& y,
                               std::int64_t stride, const Extent2d& padding) {
    return {
        x.shape()[0],      x.shape()[1],      x.shape()[2],        x.shape()[3], weight.shape()[0],
        weight.shape()[1], weight.shape()[2], y.shape()[1],        y.shape()[2], stride,
        padding.rows,      padding.columns,   groups_of(x, weight)};
  }
  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_filters() const { return filters / groups; }
  /// Number of elements of a patch: what a filter sees.
  std::int64_t patch() const { return filter_height * filter_width * group_channels(); }
  std::int64_t positions() const { return out_height * out_width; }  // for each image
  /// Whether the patches are the pixels of the images, so that x itself is the matrix, or the
  /// columns of a group in it.
  bool is_product() const {
    return filter_height == 1 && filter_width == 1 && stride == 1 && padding_rows == 0 &&
           padding_columns == 0;
  }
  auto operator<=>(const ConvolutionExtents&) const = default;
};

/// Some of the images, and one group of their channels.
struct Portion {
  std::int64_t first, images, group;
};

/// Writes patches[(b, p, q)][(r, s, c)] for a portion of x. Both tensors have the same dtype.
void take_patches(const Context& context, const ConvolutionExtents& extents, const Tensor& x,
                  const Portion& portion, const Tensor& patches);
/// The reverse for a portion of dx: each pixel becomes the sum of its copies in `patches` (fp32),
/// added in the order of (r, s).
void add_patches(const Context& context, const ConvolutionExtents& extents, const Tensor& patches,
                 const Portion& portion, const Tensor& dx);

}  // namespace ringside::cuda
