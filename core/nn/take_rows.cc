#include "core/nn/take_rows.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

Tensor TakeRows::forward(const Tensor& x, const Tensor& positions, const Pass& pass) {
  const TakeRowsForward op{.x = x,
                           .positions = positions,
                           .y = layer::activation(unit_, {positions.count(), x.shape()[2]})};
  unit_.device().kernels().take_rows_forward(op);
  if (pass.keep) {
    in_ = x.shape();
    positions_ = positions;
  }
  return op.y;
}

Tensor TakeRows::backward(const Tensor& dy) {
  const TakeRowsBackward op{
      .dy = dy, .positions = std::move(positions_), .dx = layer::workspace(unit_, in_)};
  unit_.device().kernels().take_rows_backward(op);
  return op.dx;
}

}  // namespace ringside
