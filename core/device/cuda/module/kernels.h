// The operations of core/device/ops.h on a GPU: one function an operation.
#pragma once

#include "core/device/cuda/module/context.h"
#include "core/device/kernels.h"

namespace ringside::cuda {

class Matmul;          // matmul.h
class FusedAttention;  // attention_cudnn.h

// Each enqueues on the compute stream and returns; none waits for the device or takes memory but
// from device.allocate(). They throw Error where CUDA refuses a launch.
void fill(const Context&, const Fill&);
void copy(const Context&, const Copy&);
void add(const Context&, const Add&);
void cast(const Context&, const Cast&);
void sum_of_squares(const Context&, const SumOfSquares&);
void adamw(const Context&, const AdamW&);
void sgd(const Context&, const Sgd&);
void linear_forward(const Context&, Matmul&, const LinearForward&);
void linear_backward(const Context&, Matmul&, const LinearBackward&);
void embedding_forward(const Context&, const EmbeddingForward&);
void embedding_backward(const Context&, const EmbeddingBackward&);
void layer_norm_forward(const Context&, const LayerNormForward&);
void layer_norm_backward(const Context&, const LayerNormBackward&);
void cross_entropy(const Context&, const CrossEntropy&);

/// Attention out of products and a softmax, in any dtype and shape: of as many heads at a time as
/// have room in `most_bytes` of scratch memory, but of one at least.
void attention_forward(const Context&, Matmul&, const AttentionForward&, std::int64_t most_bytes);
void attention_backward(const Context&, Matmul&, const AttentionBackward&, std::int64_t most_bytes);

/// Every slot, bound to the context. They hold memory of the context's device (the workspace of
/// products), so they end before it.
Kernels make_kernels(const Context& context);

}  // namespace ringside::cuda
