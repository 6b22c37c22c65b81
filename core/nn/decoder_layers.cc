#include "core/nn/decoder_layers.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

RmsNorm::RmsNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon)
    : unit_(unit),
      width_(width),
      epsilon_(epsilon),
      weight_(unit.declare().add(name + ".weight", {width}, layer::ones)) {}

Tensor RmsNorm::forward(const Tensor& x, const Tensor& residual, const Pass& pass) {
  RmsNormForward op{.x = layer::rows(x, width_), .weight = unit_.value(weight_)};
  if (residual) {
    op.residual = layer::rows(residual, width_);
    op.sum = op.x;
  }
  op.y = layer::activation(unit_, op.x.shape());
  op.rstd = layer::statistic(unit_, {op.x.shape()[0]});
  op.epsilon = epsilon_;
  unit_.device().kernels().rms_norm_forward(op);
  if (pass.keep) {
    x_ = op.x;
    rstd_ = op.rstd;
  }
  return op.y;
}

Tensor RmsNorm::again() {
  RmsNormForward op{.x = x_,
                    .weight = unit_.value(weight_),
                    .y = layer::activation(unit_, x_.shape()),
                    .rstd = rstd_,
                    .epsilon = epsilon_};
  unit_.device().kernels().rms_norm_forward(op);
  return op.y;
}

Tensor RmsNorm::backward(const Tensor& dy, const Tensor& dresidual) {
  RmsNormBackward op{.dy = layer::rows(dy, width_),
                     .x = std::move(x_),
                     .weight = unit_.value(weight_),
                     .rstd = std::move(rstd_),
                     .dweight = unit_.gradient(weight_)};
  if (dresidual)
    op.dx = op.dresidual = layer::rows(dresidual, width_);
  else
    op.dx = layer::workspace(unit_, op.x.shape());
  unit_.device().kernels().rms_norm_backward(op);
  return op.dx;
}

Tensor SwiGlu::forward(const Tensor& x, const Pass& pass) {
  const SwiGluForward op{.x = x, .y = layer::activation(unit_, {x.shape()[0], width_})};
  unit_.device().kernels().swiglu_forward(op);
  if (pass.keep) x_ = x;
  return op.y;
}

Tensor SwiGlu::backward(const Tensor& dy) {
  const Tensor x = std::move(x_);
  unit_.device().kernels().swiglu_backward({.dy = layer::rows(dy, width_), .x = x, .dx = x});
  return x;
}

}  // namespace ringside
