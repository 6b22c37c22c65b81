// Convolution: a layer on images, channels last. See core/nn/layers.h for what all layers do.
#pragma once

#include "core/nn/unit.h"

namespace ringside {

/// Square kernels, and zeros around the image.
struct Kernel2d {
  std::int64_t size = 3, stride = 1, padding = 1;
};

/// y = x * weight + bias, then relu. Parameters: "NAME.weight" [out, size, size, in], N(0, sqrt(2 /
/// (out size^2))) (He et al. 2015 for what goes backward, as torchvision starts); "NAME.bias"
/// [out], 0.
class Convolution {
 public:
  enum class After : std::uint8_t { nothing, bias, bias_and_relu };

  Convolution(Unit& unit, const std::string& name, std::int64_t in, std::int64_t out,
              Kernel2d kernel, After after = After::nothing);

  /// [B, H, W, in] -> [B, P, Q, out], P = (H + 2 padding - size) / stride + 1.
  Tensor forward(const Tensor& x, const Pass& pass);
  /// [B, P, Q, out] -> [B, H, W, in]; empty where nobody wants it. Overwrites `dy` after a relu.
  Tensor backward(const Tensor& dy, bool wanted = true);

 private:
  Unit& unit_;
  std::int64_t in_, out_;
  Kernel2d kernel_;
  After after_;
  std::size_t weight_, bias_ = 0;
  Tensor x_, y_;
};

}  // namespace ringside
