// The operations of core/device/ops.h on a GPU: one function for each operation.
#pragma once

#include "core/device/cuda/runtime/context.h"
#include "core/device/kernels.h"

namespace ringside::cuda {

class Matmul;            // matmul.h
class FusedAttention;    // attention_cudnn.h
class FusedConvolution;  // convolution_cudnn.h

// Each function enqueues its operation on the compute stream and returns without waiting for the
// device. It allocates memory only with device.allocate(). Throws Error if CUDA refuses a launch.
void fill(const Context&, const Fill&);
void copy(const Context&, const Copy&);
void add(const Context&, const Add&);
void blend(const Context&, const Blend&);
void compensate_delay(const Context&, const CompensateDelay&);
void cast(const Context&, const Cast&);
void sum_of_squares(const Context&, const SumOfSquares&);
void dropout(const Context&, const Dropout&);
void adamw(const Context&, const AdamW&);
void sgd(const Context&, const Sgd&);
void lamb_moments(const Context&, const LambMoments&);
void lamb_update(const Context&, const LambUpdate&);
void linear_forward(const Context&, Matmul&, const LinearForward&);
void linear_backward(const Context&, Matmul&, const LinearBackward&);
void embedding_forward(const Context&, const EmbeddingForward&);
void embedding_backward(const Context&, const EmbeddingBackward&);
void take_rows_forward(const Context&, const TakeRowsForward&);
void take_rows_backward(const Context&, const TakeRowsBackward&);
void copy_columns(const Context&, const CopyColumns&);
void layer_norm_forward(const Context&, const LayerNormForward&);
void layer_norm_backward(const Context&, const LayerNormBackward&);
void rms_norm_forward(const Context&, const RmsNormForward&);
void rms_norm_backward(const Context&, const RmsNormBackward&);
void swiglu_forward(const Context&, const SwiGluForward&);
void swiglu_backward(const Context&, const SwiGluBackward&);
void rotary(const Context&, const Rotary&);
void batch_norm_statistics(const Context&, const BatchNormStatistics&);
void batch_norm_merge(const Context&, const BatchNormMerge&);
void batch_norm_forward(const Context&, const BatchNormForward&);
void batch_norm_reduce(const Context&, const BatchNormReduce&);
void batch_norm_backward(const Context&, const BatchNormBackward&);
void max_pool_forward(const Context&, const MaxPoolForward&);
void max_pool_backward(const Context&, const MaxPoolBackward&);
void average_windows_forward(const Context&, const AverageWindowsForward&);
void average_windows_backward(const Context&, const AverageWindowsBackward&);
void average_pool_forward(const Context&, const AveragePoolForward&);
void average_pool_backward(const Context&, const AveragePoolBackward&);
void cross_entropy(const Context&, const CrossEntropy&);

/// Attention by matrix products and a softmax, for any dtype and shape. Computes as many heads at a
/// time as fit into `most_bytes` of scratch memory, but at least one. Backward also keeps the parts
/// of the gradients of keys and values of the heads that share them: [2, H / K, T, D] fp32.
void attention_forward(const Context&, Matmul&, const AttentionForward&, std::int64_t most_bytes);
void attention_backward(const Context&, Matmul&, const AttentionBackward&, std::int64_t most_bytes);
void cross_attention_forward(const Context&, Matmul&, const CrossAttentionForward&,
                             std::int64_t most_bytes);
void cross_attention_backward(const Context&, Matmul&, const CrossAttentionBackward&,
                              std::int64_t most_bytes);

/// Convolution for any dtype and shape: by cuDNN, or by matrix products if `fused` is null or does
/// not serve the shape. Products take as many images at a time as fit into `most_bytes` of scratch
/// memory, but at least one.
void convolution_forward(const Context&, Matmul&, FusedConvolution* fused,
                         const ConvolutionForward&, std::int64_t most_bytes);
void convolution_backward(const Context&, Matmul&, FusedConvolution* fused,
                          const ConvolutionBackward&, std::int64_t most_bytes);

/// All operations, bound to `context`. They hold memory of the context's device (the workspace of
/// products), so they must be destroyed before the device.
Kernels make_kernels(const Context& context);

}  // namespace ringside::cuda
