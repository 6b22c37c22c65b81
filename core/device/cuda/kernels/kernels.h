// The operations of core/device/kernels.h on a GPU: one function for each operation.
#pragma once

#include "core/device/cuda/runtime/context.h"
#include "core/device/kernels.h"

namespace ringside::cuda {

class Matmul;            // matmul.h
class FusedAttention;    // attention_cudnn.h
class FusedConvolution;  // convolution_cudnn.h

// Each function enqueues its operation on the compute stream and returns without waiting for the
// device. It allocates memory only with device.allocate(). Throws Error if CUDA refuses a launch.
#define RINGSIDE_DECLARE(Op, name) void name(const Context&, const Op&);
#define RINGSIDE_DECLARED_BELOW(Op, name)
RINGSIDE_KERNELS(RINGSIDE_DECLARE, RINGSIDE_DECLARED_BELOW)
#undef RINGSIDE_DECLARE
#undef RINGSIDE_DECLARED_BELOW

void linear_forward(const Context&, Matmul&, const LinearForward&);
void linear_backward(const Context&, Matmul&, const LinearBackward&);
void matrix_product(const Context&, Matmul&, const MatrixProduct&);

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
