// Operations of layers on images. Channels come last: inputs have B images, H x W positions and C
// channels, outputs P x Q positions and K channels. For kernels or windows of R x S positions,
// P = (H + 2 * padding.rows - R) / stride + 1 and Q = (W + 2 * padding.columns - S) / stride + 1.
// See core/device/ops.h.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace ringside {

/// A number for the rows of an image and one for its columns; a single number stands for both.
struct Extent2d {
  std::int64_t rows = 0, columns = 0;

  constexpr Extent2d(std::int64_t both) : rows(both), columns(both) {}
  constexpr Extent2d(std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_) {}
  bool operator==(const Extent2d&) const = default;
};

/// Convolution as in deep learning: cross-correlation, with zeros around the image. With G groups
/// (Krizhevsky et al. 2012) both channels and kernels are divided into G equal parts in their
/// order, and a kernel sees the channels of its own part alone. The weight says how many groups
/// there are.
struct ConvolutionForward {
  Tensor x{};       // [B, H, W, C]
  Tensor weight{};  // [K, R, S, C / G]
  Tensor bias{};    // [K], optional
  bool relu = false;
  std::int64_t stride = 1;
  Extent2d padding = 0;  // rows of zeros above and below, columns on either side
  Tensor y{};            // [B, P, Q, K]
};
/// With `relu`, dy is overwritten by the gradient of the values before the relu. An operation for
/// dx, and then one for dweight and dbias without relu, give the same bits as one for all of them.
struct ConvolutionBackward {
  Tensor dy{};      // [B, P, Q, K]
  Tensor x{};       // [B, H, W, C], needed for dweight
  Tensor weight{};  // [K, R, S, C / G], needed for dx
  Tensor y{};       // [B, P, Q, K], needed if and only if `relu`
  bool relu = false;
  std::int64_t stride = 1;
  Extent2d padding = 0;
  Tensor dx{};       // [B, H, W, C], optional unless there is no dweight
  Tensor dweight{};  // [K, R, S, C / G], optional unless there is no dx
  Tensor dbias{};    // [K], optional; only with dweight
};
/// The operation with dx as x and dweight as weight where it does not need these: they have the
/// same extents, which kernels want to know in any case.
inline ConvolutionBackward with_extents(ConvolutionBackward op) {
  if (!op.x) op.x = op.dx;
  if (!op.weight) op.weight = op.dweight;
  return op;
}
/// The number of groups of a convolution of images x with `weight`.
inline std::int64_t groups_of(const Tensor& x, const Tensor& weight) {
  return x.shape()[3] / weight.shape()[3];
}

// Batch norm (Ioffe and Szegedy 2015) over M = B * H * W rows. It has several parts, so that ranks
// can combine their statistics in between. Statistics are fp32.

/// For each channel, the mean and the mean squared deviation from it.
struct BatchNormStatistics {
  Tensor x{};                 // [M, C]
  Tensor mean{}, variance{};  // [C] fp32
};
/// Combines the statistics of n groups with equally many rows, in the order of the groups.
struct BatchNormMerge {
  Tensor groups{};            // [n, 2, C] fp32: mean, variance
  Tensor mean{}, variance{};  // [C] fp32
};
/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias + residual, then relu.
struct BatchNormForward {
  Tensor x{};                 // [M, C]
  Tensor residual{};          // [M, C], optional
  Tensor mean{}, variance{};  // [C] fp32
  Tensor weight{}, bias{};    // [C]
  float epsilon = 1e-5f;
  bool relu = false;
  Tensor y{};  // [M, C]
};
/// sums[0] = the sum of dz, sums[1] = the sum of dz times the normalised x; these are the gradients
/// of bias and weight. dz is dy; with `relu` it is 0 where y is not above 0.
struct BatchNormReduce {
  Tensor dy{}, x{}, y{};      // [M, C]; y is needed if and only if `relu`
  Tensor mean{}, variance{};  // [C] fp32
  float epsilon = 1e-5f;
  bool relu = false;
  Tensor sums{};  // [2, C] fp32
};
/// dx = weight * rstd * (dz - sums[0] / rows - xhat * sums[1] / rows); dresidual = dz. Here rstd is
/// 1 / sqrt(variance + epsilon), xhat is the normalised x, and dz is as in BatchNormReduce.
struct BatchNormBackward {
  Tensor dy{}, x{}, y{};      // as in BatchNormReduce
  Tensor mean{}, variance{};  // [C] fp32
  Tensor weight{};            // [C]
  float epsilon = 1e-5f;
  bool relu = false;
  Tensor sums{};          // [2, C] fp32, over all `rows` of the group
  std::int64_t rows = 0;  // M times the number of ranks in the group
  Tensor dx{};            // [M, C], may be the same tensor as dy
  Tensor dresidual{};     // [M, C], optional; may be the same tensor as dy, but then dx must not be
};

/// The maximum over windows of size x size. Positions outside the image count as less than any
/// value. Of equal values, the first in the window is taken, counted row by row.
struct MaxPoolForward {
  Tensor x{};  // [B, H, W, C]
  std::int64_t size = 2, stride = 2, padding = 0;
  Tensor y{};      // [B, P, Q, C]
  Tensor where{};  // [B, P, Q, C] uint8: the maximum's place in its window; optional
};
struct MaxPoolBackward {
  Tensor dy{};     // [B, P, Q, C]
  Tensor where{};  // [B, P, Q, C] uint8
  std::int64_t size = 2, stride = 2, padding = 0;
  Tensor dx{};  // [B, H, W, C]
};
/// The mean over windows of size x size. Positions outside the image count as zeros: a window has
/// size * size positions wherever it lies.
struct AverageWindowsForward {
  Tensor x{};  // [B, H, W, C]
  std::int64_t size = 3, stride = 1, padding = 0;
  Tensor y{};  // [B, P, Q, C]
};
struct AverageWindowsBackward {
  Tensor dy{};  // [B, P, Q, C]
  std::int64_t size = 3, stride = 1, padding = 0;
  Tensor dx{};  // [B, H, W, C]
};
/// The mean over all positions of an image.
struct AveragePoolForward {
  Tensor x{};  // [B, H, W, C]
  Tensor y{};  // [B, C]
};
struct AveragePoolBackward {
  Tensor dy{};  // [B, C]
  Tensor dx{};  // [B, H, W, C]
};

}  // namespace ringside
