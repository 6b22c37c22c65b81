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
      weight_(unit.declare().add(name + ".weight", {out, in}, weight)),
      kept_(unit) {
  if (bias) bias_ = unit.declare().add(name + ".bias", {out}, *bias);
}

Linear::Linear(Unit& unit, const std::string& name, std::shared_ptr<TiedTable> weight,
               std::optional<Init> bias)
    : unit_(unit),
      in_(weight->shape()[1]),
      out_(weight->shape()[0]),
      activation_(Activation::none),
      tied_(std::move(weight)),
      kept_(unit) {
  if (bias) bias_ = unit.declare().add(name + ".bias", {out_}, *bias);
}

Tensor Linear::forward(const Tensor& x, const Pass& pass, Saved& saved, const Tensor& to) {
  const Tensor rows = layer::rows(x, in_);
  const Shape out{rows.shape()[0], out_};
  const Tensor pre = activation_ != Activation::none ? layer::activation(unit_, out) : Tensor{};
  const Tensor y = to ? to : layer::activation(unit_, out);
  for (std::int64_t r = 0; r < pass.ranks; ++r) {
    LinearForward op{.x = layer::of_rank(rows, r, pass.ranks),
                     .weight = weight(saved),
                     .activation = activation_,
                     .pre = layer::of_rank(pre, r, pass.ranks),
                     .y = layer::of_rank(y, r, pass.ranks)};
    if (bias_) op.bias = unit_.value(*bias_);
    unit_.device().kernels().linear_forward(op);
  }
  if (pass.keep) kept_.keep(saved, {rows, pre, pass.ranks});
  return y;
}

void Linear::keep(const Tensor& x, Saved& saved) const {
  kept_.keep(saved, {.x = layer::rows(x, in_)});
}

Tensor Linear::backward(const Tensor& dy, Saved& saved) {
  Kept kept = kept_.take(saved);
  const Tensor rows = layer::rows(dy, out_);
  const Tensor dx = layer::workspace(unit_, kept.x.shape());
  for (std::int64_t r = 0; r < kept.ranks; ++r) {
    LinearBackward op{.dy = layer::of_rank(rows, r, kept.ranks),
                      .weight = weight(saved),
                      .activation = activation_,
                      .pre = layer::of_rank(kept.pre, r, kept.ranks),
                      .dx = layer::of_rank(dx, r, kept.ranks)};
    if (!saved.puts_off()) add_weights(op, kept, r, saved.side());
    unit_.device().kernels().linear_backward(op);
  }
  if (!saved.puts_off()) return dx;
  kept.pre = {};  // `dy` has been through the activation
  saved.put_off([this, kept = std::move(kept), rows, &side = saved.side()] {
    for (std::int64_t r = 0; r < kept.ranks; ++r) {
      LinearBackward op{.dy = layer::of_rank(rows, r, kept.ranks)};
      add_weights(op, kept, r, side);
      unit_.device().kernels().linear_backward(op);
    }
  });
  return dx;
}

void Linear::add_weights(LinearBackward& op, const Kept& kept, std::int64_t rank,
                         SideValues& side) const {
  op.x = layer::of_rank(kept.x, rank, kept.ranks);
  op.dweight = tied_ ? tied_->start_gradient(side, op.x.dtype()) : unit_.gradient(weight_, rank);
  if (bias_) op.dbias = unit_.gradient(*bias_, rank);
}

LayerNorm::LayerNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon)
    : unit_(unit),
      width_(width),
      epsilon_(epsilon),
      weight_(unit.declare().add(name + ".weight", {width}, layer::ones)),
      bias_(unit.declare().add(name + ".bias", {width}, layer::zeros)),
      kept_(unit) {}

Tensor LayerNorm::forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved) {
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
  if (pass.keep) kept_.keep(saved, {op.x, op.mean, op.rstd});
  return op.y;
}

Tensor LayerNorm::again(Saved& saved) {
  const Kept& kept = kept_.look(saved);
  LayerNormForward op{.x = kept.x,
                      .weight = unit_.value(weight_),
                      .bias = unit_.value(bias_),
                      .y = layer::activation(unit_, kept.x.shape()),
                      .mean = kept.mean,
                      .rstd = kept.rstd,
                      .epsilon = epsilon_};
  unit_.device().kernels().layer_norm_forward(op);
  return op.y;
}

Tensor LayerNorm::backward(const Tensor& dy, const Tensor& dresidual, Saved& saved) {
  Kept kept = kept_.take(saved);
  LayerNormBackward op{.dy = layer::rows(dy, width_),
                       .x = std::move(kept.x),
                       .weight = unit_.value(weight_),
                       .mean = std::move(kept.mean),
                       .rstd = std::move(kept.rstd),
                       .dweight = layer::gradient(unit_, weight_, saved),
                       .dbias = layer::gradient(unit_, bias_, saved)};
  if (dresidual) op.dresidual = layer::rows(dresidual, width_);
  op.dx = dresidual ? layer::sum_with(unit_, op.dresidual, saved)
                    : layer::workspace(unit_, op.x.shape());
  unit_.device().kernels().layer_norm_backward(op);
  return op.dx;
}

Embedding::Embedding(Unit& unit, const std::string& name, std::int64_t vocabulary,
                     std::int64_t positions, std::int64_t width, Init init)
    : unit_(unit),
      width_(width),
      token_table_(unit.declare().add(name + ".tokens", {vocabulary, width}, init)),
      tokens_(unit) {
  if (positions > 0)
    position_table_ = unit.declare().add(name + ".positions", {positions, width}, init);
}

std::shared_ptr<TiedTable> Embedding::share(std::size_t edge) {
  if (!shared_) shared_ = std::make_shared<TiedTable>(unit_, token_table_, edge);
  return shared_;
}

Tensor Embedding::forward(const Tensor& tokens, const Pass& pass, Saved& saved) {
  EmbeddingForward op{.tokens = tokens, .token_table = unit_.value(token_table_)};
  if (position_table_) op.position_table = unit_.value(*position_table_);
  op.y = layer::activation(unit_, {tokens.count(), width_});
  unit_.device().kernels().embedding_forward(op);
  if (pass.keep) tokens_.keep(saved, tokens);
  return op.y;
}

void Embedding::backward(const Tensor& dy, Saved& saved) {
  SideValues& side = saved.side();
  saved.do_weights([this, tokens = tokens_.take(saved), dy = layer::rows(dy, width_), &side] {
    EmbeddingBackward op{
        .tokens = tokens,
        .dy = dy,
        .dtoken_table = shared_ ? shared_->owners_part(side) : unit_.gradient(token_table_)};
    if (position_table_) op.dposition_table = unit_.gradient(*position_table_);
    unit_.device().kernels().embedding_backward(op);
    if (shared_) shared_->add_up(op.dtoken_table, side);
  });
}

}  // namespace ringside
