// cuDNN's convolutions, where the build has it (convolution_cudnn.cc, else
// convolution_cudnn_absent.cc).
#pragma once

#include <memory>

#include "core/device/cuda/module/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// Which shapes it has is decided here and nowhere else: those for which cuDNN has an engine that
/// gives the same bits every time and, in fp32, computes in fp32 unless TF32 was asked for. It is
/// asked once a shape, when that first comes.
///
/// Each enqueues and returns true; or false, and nothing has happened: the shape is not for it.
/// They throw Error if cuDNN fails on a shape that it had accepted.
class FusedConvolution {
 public:
  virtual ~FusedConvolution() = default;
  /// With bias and relu, if the operation has them.
  virtual bool forward(const ConvolutionForward& op) = 0;
  /// dx and dweight alone, of a dy that relu has been taken out of.
  virtual bool input_gradient(const ConvolutionBackward& op) = 0;
  virtual bool weight_gradient(const ConvolutionBackward& op) = 0;
};

/// Null where it is not built.
std::unique_ptr<FusedConvolution> make_fused_convolution(const Context& context);

}  // namespace ringside::cuda
