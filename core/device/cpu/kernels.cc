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
      .cast = bound(context, cast),
      .sum_of_squares = bound(context, sum_of_squares),
      .adamw = bound(context, adamw),
      .sgd = bound(context, sgd),
      .linear_forward = bound(context, linear_forward),
      .linear_backward = bound(context, linear_backward),
      .embedding_forward = bound(context, embedding_forward),
      .embedding_backward = bound(context, embedding_backward),
      .layer_norm_forward = bound(context, layer_norm_forward),
      .layer_norm_backward = bound(context, layer_norm_backward),
      .attention_forward = bound(context, attention_forward),
      .attention_backward = bound(context, attention_backward),
      .cross_entropy = bound(context, cross_entropy),
  };
}

}  // namespace ringside::cpu
