// cuDNN's fused attention. Defined in attention_cudnn.cc, or in attention_cudnn_absent.cc if the
// build has no cuDNN.
#pragma once

#include <memory>
#include <string>

#include "core/device/cuda/runtime/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// Attention in bf16 and fp16. This class alone decides which shapes use cuDNN: those for which
/// cuDNN has an engine that gives the same bits every time. cuDNN is asked once for each shape,
/// when the shape first occurs.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  /// Enqueues the operation and returns true; or does nothing and returns false if cuDNN cannot be
  /// used for this shape. Throws Error if cuDNN fails on a shape that it accepted before.
  virtual bool forward(const AttentionForward& op) = 0;
  virtual bool backward(const AttentionBackward& op) = 0;
};

/// Returns null if the build has no cuDNN.
std::unique_ptr<FusedAttention> make_fused_attention(const Context& context);

/// cuDNN's version, for example "9.19.0"; empty if the build has no cuDNN.
std::string cudnn_version();

}  // namespace ringside::cuda
