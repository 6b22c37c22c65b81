// cuDNN's convolutions. Defined in convolution_cudnn.cc, or in convolution_cudnn_absent.cc if the
// build has no cuDNN.
#pragma once

#include <memory>

#include "core/device/cuda/runtime/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// This class alone decides which shapes use cuDNN: those for which cuDNN has an engine that gives
/// the same bits every time and computes fp32 in fp32 unless TF32 was asked for. cuDNN is asked
/// once for each shape, when the shape first occurs.
///
/// Each function enqueues the operation and returns true; or does nothing and returns false if
/// cuDNN cannot be used for this shape. Throws Error if cuDNN fails on a shape that it accepted
/// before.
class FusedConvolution {
 public:
  virtual ~FusedConvolution() = default;
  /// Includes bias and relu if the operation has them.
  virtual bool forward(const ConvolutionForward& op) = 0;
  /// input_gradient() computes dx, weight_gradient() dweight. If the layer has a relu, the caller
  /// must have multiplied dy by the relu's derivative.
  virtual bool input_gradient(const ConvolutionBackward& op) = 0;
  virtual bool weight_gradient(const ConvolutionBackward& op) = 0;
};

/// Returns null if the build has no cuDNN.
std::unique_ptr<FusedConvolution> make_fused_convolution(const Context& context);

}  // namespace ringside::cuda
