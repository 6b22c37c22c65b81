#include "core/nn/attention.h"

#include <utility>

#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

std::optional<Init> bias_of(const AttentionOptions& o) {
  return o.bias ? std::optional(layer::zeros) : std::nullopt;
}

}  // namespace

SelfAttention::SelfAttention(Unit& unit, const std::string& name, const AttentionOptions& o)
    : unit_(unit),
      heads_(o.heads),
      key_heads_(o.key_heads),
      head_width_(o.width / o.heads),
      causal_(o.causal),
      rotary_(o.rotary),
      qkv_layer_(unit, name + ".qkv", o.width, (o.heads + 2 * o.key_heads) * head_width_, o.qkv,
                 bias_of(o)),
      out_layer_(unit, name + ".out", o.width, o.width, o.out, bias_of(o)) {}

Tensor SelfAttention::forward(const Tensor& x, std::int64_t samples, const Pass& pass,
                              Remake remake) {
  if (pass.keep) remake_ = {};  // an earlier forward may have had no backward
  if (!pass.keep || pass.keep_attention) return out_layer_.forward(attend(x, samples, pass), pass);
  remake_ = remake ? std::move(remake) : [x] { return x; };
  samples_ = samples;
  Pass dropping = pass;
  dropping.keep = false;
  return out_layer_.forward(attend(x, samples, dropping), dropping);
}

Tensor SelfAttention::attend(const Tensor& x, std::int64_t samples, const Pass& pass) {
  const std::int64_t positions = x.count() / (samples * heads_ * head_width_);
  AttentionForward op{.qkv = qkv_layer_.forward(x, pass).reshaped(
                          {samples, positions, heads_ + 2 * key_heads_, head_width_}),
                      .causal = causal_};
  rotate(op.qkv, false);
  op.y = layer::activation(unit_, {samples, positions, heads_, head_width_});
  op.statistics = layer::statistic(unit_, {samples, heads_, positions});
  unit_.device().kernels().attention_forward(op);
  if (pass.keep) {
    qkv_ = op.qkv;
    y_ = op.y;
    statistics_ = op.statistics;
  }
  return op.y;
}

Tensor SelfAttention::backward(const Tensor& dy) {
  if (const Remake remake = std::exchange(remake_, {}))
    out_layer_.keep(attend(remake(), samples_, Pass{.again = true}));
  Tensor dqkv;
  {
    AttentionBackward op{.dy = out_layer_.backward(dy).reshaped(y_.shape()),
                         .qkv = std::move(qkv_),
                         .causal = causal_,
                         .y = std::move(y_),
                         .statistics = std::move(statistics_)};
    op.dqkv = dqkv = layer::workspace(unit_, op.qkv.shape());
    unit_.device().kernels().attention_backward(op);
  }
  rotate(dqkv, true);
  return qkv_layer_.backward(dqkv);
}

/// Rotates the queries and keys of `qkv` if the layer has rotary positions. With `inverse` rotates
/// back, as gradients need it: the transpose of a rotation is its inverse.
void SelfAttention::rotate(const Tensor& qkv, bool inverse) const {
  if (!rotary_) return;
  unit_.device().kernels().rotary({.x = qkv,
                                   .heads = heads_ + key_heads_,
                                   .base = rotary_->base,
                                   .factor = rotary_->factor,
                                   .inverse = inverse});
}

}  // namespace ringside
