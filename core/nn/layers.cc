#include "core/nn/layers.h"

#include <cmath>

#include "core/nn/layer_tensors.h"

namespace ringside {

Init uniform_for(std::int64_t in) {
  return {Init::Kind::uniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(in)))};
}

Linear::Linear(Unit& unit, const std::string& name, std::int64_t in, std::int64_t out, Init weight,
               std::optional<Init> bias, Activation activation)
    : unit_(unit),
      in_(in),
      out_(out),
      activation_(activation),
      weight_(unit.declare().add(name + ".weight", {out, in}, weight)) {
  if (bias) bias_ = unit.declare().add(name + ".bias", {out}, *bias);
}

Linear::Linear(Unit& unit, const std::string& name, std::shared_ptr<TiedTable> weight,
               std::optional<Init> bias)
    : unit_(unit),
      in_(weight->shape()[1]),
      out_(weight->shape()[0]),
      activation_(Activation::none),
      tied_(std::move(weight)) {
  if (bias) bias_ = unit.declare().add(name + ".bias", {out_}, *bias);
}

Tensor Linear::forward(const Tensor& x, const Pass& pass, const Tensor& to) {
  const Tensor rows = layer::rows(x, in_);
  const Shape out{rows.shape()[0], out_};
  const Tensor pre = activation_ != Activation::none ? layer::activation(unit_, out) : Tensor{};
  const Tensor y = to ? to : layer::activation(unit_, out);
  for (std::int64_t r = 0; r < pass.ranks; ++r) {
    LinearForward op{.x = layer::of_rank(rows, r, pass.ranks),
                     .weight = weight(),
                     .activation = activation_,
                     .pre = layer::of_rank(pre, r, pass.ranks),
                     .y = layer::of_rank(y, r, pass.ranks)};
    if (bias_) op.bias = unit_.value(*bias_);
    unit_.device().kernels().linear_forward(op);
  }
  if (pass.keep) {
    ranks_ = pass.ranks;
    x_ = rows;
    pre_ = pre;
  }
  return y;
}

void Linear::keep(const Tensor& x) { x_ = layer::rows(x, in_); }

Tensor Linear::backward(const Tensor& dy) {
  const Tensor x = std::move(x_), pre = std::move(pre_);
  const Tensor dx = layer::workspace(unit_, x.shape());
  for (std::int64_t r = 0; r < ranks_; ++r) {
    LinearBackward op{.dy = layer::of_rank(layer::rows(dy, out_), r, ranks_),
                      .x = layer::of_rank(x, r, ranks_),
                      .weight = weight(),
                      .activation = activation_,
                      .pre = layer::of_rank(pre, r, ranks_),
                      .dx = layer::of_rank(dx, r, ranks_),
                      .dweight = tied_ ? tied_->start_gradient() : unit_.gradient(weight_, r)};
    if (bias_) op.dbias = unit_.gradient(*bias_, r);
    unit_.device().kernels().linear_backward(op);
  }
  return dx;
}

LayerNorm::LayerNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon)
    : unit_(unit),
      width_(width),
      epsilon_(epsilon),
      weight_(unit.declare().add(name + ".weight", {width}, layer::ones)),
      bias_(unit.declare().add(name + ".bias", {width}, layer::zeros)) {}

Tensor LayerNorm::forward(const Tensor& x, const Tensor& residual, const Pass& pass) {
  LayerNormForward op{
      .x = layer::rows(x, width_), .weight = unit_.value(weight_), .bias = unit_.value(bias_)};
  if (residual) {
    op.residual = layer::rows(residual, width_);
    op.sum = op.x;
  }
  op.y = layer::activation(unit_, op.x.shape());
  op.mean = layer::statistic(unit_, {op.x.shape()[0]});
  op.rstd = layer::statistic(unit_, {op.x.shape()[0]});
  op.epsilon = epsilon_;
  unit_.device().kernels().layer_norm_forward(op);
  if (pass.keep) {
    x_ = op.x;
    mean_ = op.mean;
    rstd_ = op.rstd;
  }
  return op.y;
}

Tensor LayerNorm::again() {
  LayerNormForward op{.x = x_,
                      .weight = unit_.value(weight_),
                      .bias = unit_.value(bias_),
                      .y = layer::activation(unit_, x_.shape()),
                      .mean = mean_,
                      .rstd = rstd_,
                      .epsilon = epsilon_};
  unit_.device().kernels().layer_norm_forward(op);
  return op.y;
}

Tensor LayerNorm::backward(const Tensor& dy, const Tensor& dresidual) {
  LayerNormBackward op{.dy = layer::rows(dy, width_),
                       .x = std::move(x_),
                       .weight = unit_.value(weight_),
                       .mean = std::move(mean_),
                       .rstd = std::move(rstd_),
                       .dweight = unit_.gradient(weight_),
                       .dbias = unit_.gradient(bias_)};
  if (dresidual)
    op.dx = op.dresidual = layer::rows(dresidual, width_);
  else
    op.dx = layer::workspace(unit_, op.x.shape());
  unit_.device().kernels().layer_norm_backward(op);
  return op.dx;
}

Embedding::Embedding(Unit& unit, const std::string& name, std::int64_t vocabulary,
                     std::int64_t positions, std::int64_t width, Init init)
    : unit_(unit),
      width_(width),
      token_table_(unit.declare().add(name + ".tokens", {vocabulary, width}, init)) {
  if (positions > 0)
    position_table_ = unit.declare().add(name + ".positions", {positions, width}, init);
}

std::shared_ptr<TiedTable> Embedding::share() {
  if (!shared_) shared_ = std::make_shared<TiedTable>(unit_, token_table_);
  return shared_;
}

Tensor Embedding::forward(const Tensor& tokens, const Pass& pass) {
  EmbeddingForward op{.tokens = tokens, .token_table = unit_.value(token_table_)};
  if (position_table_) op.position_table = unit_.value(*position_table_);
  op.y = layer::activation(unit_, {tokens.count(), width_});
  unit_.device().kernels().embedding_forward(op);
  if (pass.keep) tokens_ = tokens;
  return op.y;
}

void Embedding::backward(const Tensor& dy) {
  EmbeddingBackward op{
      .tokens = std::move(tokens_),
      .dy = layer::rows(dy, width_),
      .dtoken_table = shared_ ? shared_->owners_part() : unit_.gradient(token_table_)};
  if (position_table_) op.dposition_table = unit_.gradient(*position_table_);
  unit_.device().kernels().embedding_backward(op);
  if (shared_) shared_->add_up();
}

}  // namespace ringside
