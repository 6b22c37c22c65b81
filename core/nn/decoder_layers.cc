#include "core/nn/decoder_layers.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

RmsNorm::RmsNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon)
    : unit_(unit),
      width_(width),
      epsilon_(epsilon),
      weight_(unit.declare().add(name + ".weight", {width}, layer::ones)),
      kept_(unit) {}

Tensor RmsNorm::forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved) {
  RmsNormForward op{.x = layer::rows(x, width_), .weight = unit_.value(weight_)};
  if (residual) {
    op.residual = layer::rows(residual, width_);
    op.sum = op.x;
  }
  op.y = layer::activation(unit_, op.x.shape());
  op.rstd = layer::statistic(unit_, {op.x.shape()[0]});
  op.epsilon = epsilon_;
  unit_.device().kernels().rms_norm_forward(op);
  if (pass.keep) kept_.keep(saved, {op.x, op.rstd});
  return op.y;
}

Tensor RmsNorm::again(Saved& saved) {
  const Kept& kept = kept_.look(saved);
  RmsNormForward op{.x = kept.x,
                    .weight = unit_.value(weight_),
                    .y = layer::activation(unit_, kept.x.shape()),
                    .rstd = kept.rstd,
                    .epsilon = epsilon_};
  unit_.device().kernels().rms_norm_forward(op);
  return op.y;
}

Tensor RmsNorm::backward(const Tensor& dy, const Tensor& dresidual, Saved& saved) {
  Kept kept = kept_.take(saved);
  RmsNormBackward op{.dy = layer::rows(dy, width_),
                     .x = std::move(kept.x),
                     .weight = unit_.value(weight_),
                     .rstd = std::move(kept.rstd),
                     .dweight = layer::gradient(unit_, weight_, saved)};
  if (dresidual) op.dresidual = layer::rows(dresidual, width_);
  op.dx = dresidual ? layer::sum_with(unit_, op.dresidual, saved)
                    : layer::workspace(unit_, op.x.shape());
  unit_.device().kernels().rms_norm_backward(op);
  return op.dx;
}

Tensor SwiGlu::forward(const Tensor& x, const Pass& pass, Saved& saved) {
  const SwiGluForward op{.x = x, .y = layer::activation(unit_, {x.shape()[0], width_})};
  unit_.device().kernels().swiglu_forward(op);
  if (pass.keep) x_.keep(saved, x);
  return op.y;
}

Tensor SwiGlu::backward(const Tensor& dy, Saved& saved) {
  const Tensor x = x_.take(saved);
  unit_.device().kernels().swiglu_backward({.dy = layer::rows(dy, width_), .x = x, .dx = x});
  return x;
}

}  // namespace ringside
