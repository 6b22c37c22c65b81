// Convolution: a layer on images, channels last. See core/nn/layers.h for what all layers do.
#pragma once

#include <optional>

#include "core/nn/slot.h"

namespace ringside {

/// A kernel of size.rows x size.columns; `padding` zeros surround the image. With several groups a
/// kernel sees only the channels of its own (core/device/ops/images.h).
struct Kernel2d {
  Extent2d size = 3;
  std::int64_t stride = 1;
  Extent2d padding = 1;
  std::int64_t groups = 1;
};

/// y = x * weight, then one of the kinds of `After`: nothing, + bias, or + bias and relu.
/// Parameters: "NAME.weight" [out, size.rows, size.columns, in / groups], initially normal with
/// mean 0 and standard deviation sqrt(2 / (out * size.rows * size.columns)) (He et al. 2015, their
/// variant for the backward pass, as in torchvision) unless an initial value is given; "NAME.bias"
/// [out] unless `After` is nothing, initially 0 unless another value is given.
class Convolution {
 public:
  enum class After : std::uint8_t { nothing, bias, bias_and_relu };

  /// `groups` divides `in` and `out`.
  Convolution(Unit& unit, const std::string& name, std::int64_t in, std::int64_t out,
              Kernel2d kernel, After after = After::nothing, std::optional<Init> weight = {},
              Init bias = {});

  /// Maps [B, H, W, in] to [B, P, Q, out], with P = (H + 2 * padding.rows - size.rows) / stride + 1
  /// and Q in the same way. Throws Error if `x` does not have `in` channels.
  Tensor forward(const Tensor& x, const Pass& pass, Saved& saved);
  /// Maps [B, P, Q, out] to [B, H, W, in], or returns an empty tensor if the gradient is not
  /// `wanted`. If the layer has a relu, `dy` is overwritten.
  Tensor backward(const Tensor& dy, Saved& saved, bool wanted = true);

 private:
  struct Kept {
    Tensor x, y;  // y only for a relu
    std::int64_t ranks;
  };

  /// The operation of one rank without any gradient that it is to compute.
  ConvolutionBackward operation(const Tensor& dy, const Kept& kept, std::int64_t rank) const;
  /// Completes an operation that is to compute the gradients of the parameters, too.
  void add_weights(ConvolutionBackward& op, const Kept& kept, std::int64_t rank) const;

  Unit& unit_;
  std::int64_t in_, out_;
  Kernel2d kernel_;
  After after_;
  std::size_t weight_, bias_ = 0;
  Slot<Kept> kept_;
};

}  // namespace ringside
