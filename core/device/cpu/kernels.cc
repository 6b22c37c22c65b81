#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/widened.h"

namespace ringside::cpu {
namespace {

template <class Op>
Kernel<Op> bound(const Context& context, void (*kernel)(const Context&, const Op&)) {
  return [context, kernel](const Op& op) { kernel(context, op); };
}

/// Uses `native` if x is bf16 and the processor multiplies bf16; else `kernel`, through widened().
template <class Op>
Kernel<Op> multiplying(const Context& context, void (*kernel)(const Context&, const Op&),
                       void (*native)(const Context&, const Op&), bool has_bf16) {
  const Kernel<Op> other = widened(context, kernel);
  if (!has_bf16) return other;
  return [context, other, native](const Op& op) {
    op.x.dtype() == DType::bf16 ? native(context, op) : other(op);
  };
}

}  // namespace

Kernels make_kernels(const Context& context) {
  const bool has_bf16 = has_bf16_products();
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
      .linear_forward = multiplying(context, linear_forward, linear_forward_bf16, has_bf16),
      .linear_backward = multiplying(context, linear_backward, linear_backward_bf16, has_bf16),
      .embedding_forward = bound(context, embedding_forward),
      .embedding_backward = widened(context, embedding_backward),
      .take_rows_forward = bound(context, take_rows_forward),
      .take_rows_backward = widened(context, take_rows_backward),
      .copy_columns = bound(context, copy_columns),
      .layer_norm_forward = widened(context, layer_norm_forward),
      .layer_norm_backward = widened(context, layer_norm_backward),
      .rms_norm_forward = widened(context, rms_norm_forward),
      .rms_norm_backward = widened(context, rms_norm_backward),
      .swiglu_forward = widened(context, swiglu_forward),
      .swiglu_backward = widened(context, swiglu_backward),
      .rotary = widened(context, rotary),
      .attention_forward = widened(context, attention_forward),
      .attention_backward = widened(context, attention_backward),
      .cross_attention_forward = widened(context, cross_attention_forward),
      .cross_attention_backward = widened(context, cross_attention_backward),
      .convolution_forward =
          multiplying(context, convolution_forward, convolution_forward, has_bf16),
      .convolution_backward =
          multiplying(context, convolution_backward, convolution_backward, has_bf16),
      .batch_norm_statistics = bound(context, batch_norm_statistics),
      .batch_norm_merge = bound(context, batch_norm_merge),
      .batch_norm_forward = bound(context, batch_norm_forward),
      .batch_norm_reduce = bound(context, batch_norm_reduce),
      .batch_norm_backward = bound(context, batch_norm_backward),
      .max_pool_forward = widened(context, max_pool_forward),
      .max_pool_backward = widened(context, max_pool_backward),
      .average_windows_forward = widened(context, average_windows_forward),
      .average_windows_backward = widened(context, average_windows_backward),
      .average_pool_forward = widened(context, average_pool_forward),
      .average_pool_backward = widened(context, average_pool_backward),
      .cross_entropy = widened(context, cross_entropy),
  };
}

}  // namespace ringside::cpu
