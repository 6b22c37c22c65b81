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
  Kernels out;
#define RINGSIDE_BIND(Op, name) out.name = bound<Op>(context, name);
#define RINGSIDE_BOUND_BELOW(Op, name)
  RINGSIDE_KERNELS(RINGSIDE_BIND, RINGSIDE_BOUND_BELOW)
#undef RINGSIDE_BIND
#undef RINGSIDE_BOUND_BELOW
  out.linear_forward = bound(context, matmul, linear_forward);
  out.linear_backward = bound(context, matmul, linear_backward);
  out.matrix_product = bound(context, matmul, matrix_product);
  out.attention_forward =
      attention(context, matmul, fused, &FusedAttention::forward, attention_forward);
  out.attention_backward =
      attention(context, matmul, fused, &FusedAttention::backward, attention_backward);
  out.cross_attention_forward = within_scratch(context, matmul, cross_attention_forward);
  out.cross_attention_backward = within_scratch(context, matmul, cross_attention_backward);
  out.convolution_forward = convolution(context, matmul, convolutions, convolution_forward);
  out.convolution_backward = convolution(context, matmul, convolutions, convolution_backward);
  return out;
}

}  // namespace ringside::cuda
