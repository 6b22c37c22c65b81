// cuDNN's fused attention, where the build has it (attention_cudnn.cc, else
// attention_cudnn_absent.cc).
#pragma once

#include <memory>
#include <string>

#include "core/device/cuda/module/context.h"
#include "core/device/ops.h"

namespace ringside::cuda {

/// bf16 and fp16. Which shapes it has is decided here and nowhere else: those for which cuDNN has
/// an engine that gives the same bits every time. It is asked once a shape, when that first comes.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  /// Enqueues and returns true; or false, and nothing has happened: the shape is not for it. Throws
  /// Error if cuDNN fails on a shape that it had accepted.
  virtual bool forward(const AttentionForward& op) = 0;
  virtual bool backward(const AttentionBackward& op) = 0;
};

/// Null where it is not built.
std::unique_ptr<FusedAttention> make_fused_attention(const Context& context);

/// Of cuDNN, as in "9.19.0"; empty where it is not built.
std::string cudnn_version();

}  // namespace ringside::cuda
