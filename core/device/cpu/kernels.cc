#include "core/device/cpu/cpu_kernels.h"

namespace ringside::cpu {
namespace {

template <class Op>
Kernel<Op> bound(const Context& context, void (*kernel)(const Context&, const Op&)) {
  return [context, kernel](const Op& op) { kernel(context, op); };
}

}  // namespace

Kernels make_kernels(const Context& context) {
  return {
      .fill = bound(context, fill),
      .copy = bound(context, copy),
      .add = bound(context, add),
      .blend = bound(context, blend),
      .cast = bound(context, cast),
      .sum_of_squares = bound(context, sum_of_squares),
      .dropout = bound(context, dropout),
      .adamw = bound(context, adamw),
      .sgd = bound(context, sgd),
      .lamb_moments = bound(context, lamb_moments),
      .lamb_update = bound(context, lamb_update),
      .linear_forward = bound(context, linear_forward),
      .linear_backward = bound(context, linear_backward),
      .embedding_forward = bound(context, embedding_forward),
      .embedding_backward = bound(context, embedding_backward),
      .take_rows_forward = bound(context, take_rows_forward),
      .take_rows_backward = bound(context, take_rows_backward),
      .layer_norm_forward = bound(context, layer_norm_forward),
      .layer_norm_backward = bound(context, layer_norm_backward),
      .attention_forward = bound(context, attention_forward),
      .attention_backward = bound(context, attention_backward),
      .convolution_forward = bound(context, convolution_forward),
      .convolution_backward = bound(context, convolution_backward),
      .batch_norm_statistics = bound(context, batch_norm_statistics),
      .batch_norm_merge = bound(context, batch_norm_merge),
      .batch_norm_forward = bound(context, batch_norm_forward),
      .batch_norm_reduce = bound(context, batch_norm_reduce),
      .batch_norm_backward = bound(context, batch_norm_backward),
      .max_pool_forward = bound(context, max_pool_forward),
      .max_pool_backward = bound(context, max_pool_backward),
      .average_pool_forward = bound(context, average_pool_forward),
      .average_pool_backward = bound(context, average_pool_backward),
      .cross_entropy = bound(context, cross_entropy),
  };
}

}  // namespace ringside::cpu
