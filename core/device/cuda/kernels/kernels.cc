#include "core/device/cuda/kernels/kernels.h"

#include <memory>

#include "core/device/cuda/kernels/attention_cudnn.h"
#include "core/device/cuda/kernels/convolution_cudnn.h"
#include "core/device/cuda/kernels/matmul.h"

namespace ringside::cuda {
namespace {

template <class Op>
Kernel<Op> bound(const Context& context, void (*kernel)(const Context&, const Op&)) {
  return [context, kernel](const Op& op) { kernel(context, op); };
}

template <class Op>
Kernel<Op> bound(const Context& context, const std::shared_ptr<Matmul>& matmul,
                 void (*kernel)(const Context&, Matmul&, const Op&)) {
  return [context, matmul, kernel](const Op& op) { kernel(context, *matmul, op); };
}

/// The most workspace for an attention or a convolution that cuDNN does not compute.
constexpr std::int64_t scratch_bytes = std::int64_t{256} << 20;

template <class Op>
Kernel<Op> within_scratch(const Context& context, const std::shared_ptr<Matmul>& matmul,
                          void (*kernel)(const Context&, Matmul&, const Op&, std::int64_t)) {
  return [=](const Op& op) { kernel(context, *matmul, op, scratch_bytes); };
}

/// Runs cuDNN's fused attention if it supports the operation's shape, else `plain`.
template <class Op>
Kernel<Op> attention(const Context& context, const std::shared_ptr<Matmul>& matmul,
                     const std::shared_ptr<FusedAttention>& fused,
                     bool (FusedAttention::*run)(const Op&),
                     void (*plain)(const Context&, Matmul&, const Op&, std::int64_t)) {
  return [=](const Op& op) {
    if (fused && ((*fused).*run)(op)) return;
    plain(context, *matmul, op, scratch_bytes);
  };
}

template <class Op>
Kernel<Op> convolution(const Context& context, const std::shared_ptr<Matmul>& matmul,
                       const std::shared_ptr<FusedConvolution>& fused,
                       void (*run)(const Context&, Matmul&, FusedConvolution*, const Op&,
                                   std::int64_t)) {
  return [=](const Op& op) { run(context, *matmul, fused.get(), op, scratch_bytes); };
}

}  // namespace

Kernels make_kernels(const Context& context) {
  const auto matmul = std::make_shared<Matmul>(context);
  const std::shared_ptr<FusedAttention> fused = make_fused_attention(context);
  const std::shared_ptr<FusedConvolution> convolutions = make_fused_convolution(context);
  return {
      .fill = bound(context, fill),
      .copy = bound(context, copy),
      .add = bound(context, add),
      .blend = bound(context, blend),
      .compensate_delay = bound(context, compensate_delay),
      .cast = bound(context, cast),
      .sum_of_squares = bound(context, sum_of_squares),
      .dropout = bound(context, dropout),
      .adamw = bound(context, adamw),
      .sgd = bound(context, sgd),
      .lamb_moments = bound(context, lamb_moments),
      .lamb_update = bound(context, lamb_update),
      .linear_forward = bound(context, matmul, linear_forward),
      .linear_backward = bound(context, matmul, linear_backward),
      .embedding_forward = bound(context, embedding_forward),
      .embedding_backward = bound(context, embedding_backward),
      .take_rows_forward = bound(context, take_rows_forward),
      .take_rows_backward = bound(context, take_rows_backward),
      .copy_columns = bound(context, copy_columns),
      .layer_norm_forward = bound(context, layer_norm_forward),
      .layer_norm_backward = bound(context, layer_norm_backward),
      .rms_norm_forward = bound(context, rms_norm_forward),
      .rms_norm_backward = bound(context, rms_norm_backward),
      .swiglu_forward = bound(context, swiglu_forward),
      .swiglu_backward = bound(context, swiglu_backward),
      .rotary = bound(context, rotary),
      .attention_forward =
          attention(context, matmul, fused, &FusedAttention::forward, attention_forward),
      .attention_backward =
          attention(context, matmul, fused, &FusedAttention::backward, attention_backward),
      .cross_attention_forward = within_scratch(context, matmul, cross_attention_forward),
      .cross_attention_backward = within_scratch(context, matmul, cross_attention_backward),
      .convolution_forward = convolution(context, matmul, convolutions, convolution_forward),
      .convolution_backward = convolution(context, matmul, convolutions, convolution_backward),
      .batch_norm_statistics = bound(context, batch_norm_statistics),
      .batch_norm_merge = bound(context, batch_norm_merge),
      .batch_norm_forward = bound(context, batch_norm_forward),
      .batch_norm_reduce = bound(context, batch_norm_reduce),
      .batch_norm_backward = bound(context, batch_norm_backward),
      .max_pool_forward = bound(context, max_pool_forward),
      .max_pool_backward = bound(context, max_pool_backward),
      .average_windows_forward = bound(context, average_windows_forward),
      .average_windows_backward = bound(context, average_windows_backward),
      .average_pool_forward = bound(context, average_pool_forward),
      .average_pool_backward = bound(context, average_pool_backward),
      .cross_entropy = bound(context, cross_entropy),
  };
}

}  // namespace ringside::cuda
