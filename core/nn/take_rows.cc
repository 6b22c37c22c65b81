#include "core/nn/take_rows.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

Tensor TakeRows::forward(const Tensor& x, const Tensor& positions, const Pass& pass, Saved& saved) {
  const TakeRowsForward op{.x = x,
                           .positions = positions,
                           .y = layer::activation(unit_, {positions.count(), x.shape()[2]})};
  unit_.device().kernels().take_rows_forward(op);
  if (pass.keep) kept_.keep(saved, {x.shape(), positions});
  return op.y;
}

Tensor TakeRows::backward(const Tensor& dy, Saved& saved) {
  Kept kept = kept_.take(saved);
  const TakeRowsBackward op{
      .dy = dy, .positions = std::move(kept.positions), .dx = layer::workspace(unit_, kept.in)};
  unit_.device().kernels().take_rows_backward(op);
  return op.dx;
}

}  // namespace ringside
