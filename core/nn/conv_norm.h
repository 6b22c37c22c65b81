// A convolution and the batch norm behind it: a layer on images, channels last.
#pragma once

#include "core/nn/batch_norm.h"
#include "core/nn/convolution.h"

namespace ringside {

/// Has the parameters and statistics of both layers: those of the convolution under the name
/// `convolution`, those of the batch norm under the name `norm`.
class ConvNorm {
 public:
  /// `init` gives the initial values of the convolution's weight, if they are not the usual ones.
  ConvNorm(Unit& unit, const std::string& convolution, const std::string& norm, std::int64_t in,
           std::int64_t out, Kernel2d kernel, bool relu, float epsilon = BatchNorm::usual_epsilon,
           std::optional<Init> init = {})
      : convolution_(unit, convolution, in, out, kernel, Convolution::After::nothing, init),
        norm_(unit, norm, out, relu, epsilon) {}

  Tensor forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved) {
    const Tensor y = convolution_.forward(x, pass, saved);
    return norm_.forward(y, residual, pass, saved);
  }
  /// Does what BatchNorm::backward() and then Convolution::backward() do.
  Tensor backward(const Tensor& dy, Saved& saved, bool wanted = true) {
    return convolution_.backward(norm_.backward(dy, saved), saved, wanted);
  }

 private:
  Convolution convolution_;
  BatchNorm norm_;
};

}  // namespace ringside
