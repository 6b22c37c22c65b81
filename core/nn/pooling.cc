#include "core/nn/pooling.h"

#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

/// [B, P, Q, C] for images [B, H, W, C].
Shape pooled(const Shape& in, const Window2d& window) {
  const auto extent = [&](std::int64_t n) {
    return (n + 2 * window.padding - window.size) / window.stride + 1;
  };
  return {in[0], extent(in[1]), extent(in[2]), in[3]};
}

}  // namespace

Tensor MaxPool::forward(const Tensor& x, const Pass& pass, Saved& saved) {
  const Shape& in = x.shape();
  MaxPoolForward op{
      .x = x, .size = window_.size, .stride = window_.stride, .padding = window_.padding};
  const Shape out = pooled(in, window_);
  op.y = layer::activation(unit_, out);
  if (pass.keep) op.where = unit_.device().tensor(out, MemoryKind::activation, DType::u8);
  unit_.device().kernels().max_pool_forward(op);
  if (pass.keep) kept_.keep(saved, {in, op.where});
  return op.y;
}

Tensor MaxPool::backward(const Tensor& dy, Saved& saved) {
  Kept kept = kept_.take(saved);
  const MaxPoolBackward op{.dy = dy,
                           .where = std::move(kept.where),
                           .size = window_.size,
                           .stride = window_.stride,
                           .padding = window_.padding,
                           .dx = layer::workspace(unit_, kept.in)};
  unit_.device().kernels().max_pool_backward(op);
  return op.dx;
}

Tensor AverageWindows::forward(const Tensor& x, const Pass& pass, Saved& saved) {
  const AverageWindowsForward op{.x = x,
                                 .size = window_.size,
                                 .stride = window_.stride,
                                 .padding = window_.padding,
                                 .y = layer::activation(unit_, pooled(x.shape(), window_))};
  unit_.device().kernels().average_windows_forward(op);
  if (pass.keep) in_.keep(saved, x.shape());
  return op.y;
}

Tensor AverageWindows::backward(const Tensor& dy, Saved& saved) {
  const AverageWindowsBackward op{.dy = dy,
                                  .size = window_.size,
                                  .stride = window_.stride,
                                  .padding = window_.padding,
                                  .dx = layer::workspace(unit_, in_.take(saved))};
  unit_.device().kernels().average_windows_backward(op);
  return op.dx;
}

Tensor AveragePool::forward(const Tensor& x, const Pass& pass, Saved& saved) {
  const Shape& in = x.shape();
  const AveragePoolForward op{.x = x, .y = layer::activation(unit_, {in[0], in[3]})};
  unit_.device().kernels().average_pool_forward(op);
  if (pass.keep) in_.keep(saved, in);
  return op.y;
}

Tensor AveragePool::backward(const Tensor& dy, Saved& saved) {
  const AveragePoolBackward op{.dy = dy, .dx = layer::workspace(unit_, in_.take(saved))};
  unit_.device().kernels().average_pool_backward(op);
  return op.dx;
}

}  // namespace ringside
