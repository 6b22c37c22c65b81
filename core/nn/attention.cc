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
      out_layer_(unit, name + ".out", o.width, o.width, o.out, bias_of(o)),
      kept_(unit),
      source_(unit) {}

Tensor SelfAttention::forward(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved,
                              Remake remake) {
  Pass inner = pass;
  if (pass.keep && !pass.keep_attention) {
    if (!remake) remake = [x](Saved&) { return x; };
    source_.keep(saved, {std::move(remake), samples});
    inner.keep = false;
  }
  return out_layer_.forward(attend(x, samples, inner, saved), inner, saved);
}

Tensor SelfAttention::attend(const Tensor& x, std::int64_t samples, const Pass& pass,
                             Saved& saved) {
  const std::int64_t positions = x.count() / (samples * heads_ * head_width_);
  AttentionForward op{
      .qkv = qkv_layer_.forward(x, pass, saved)
                 .reshaped({samples, positions, heads_ + 2 * key_heads_, head_width_}),
      .causal = causal_};
  rotate(op.qkv, false);
  op.y = layer::activation(unit_, {samples, positions, heads_, head_width_});
  op.statistics = layer::statistic(unit_, {samples, heads_, positions});
  unit_.device().kernels().attention_forward(op);
  if (pass.keep) kept_.keep(saved, {op.qkv, op.y, op.statistics});
  return op.y;
}

Tensor SelfAttention::backward(const Tensor& dy, Saved& saved) {
  if (source_.has(saved)) {
    const auto [remake, samples] = source_.take(saved);
    out_layer_.keep(attend(remake(saved), samples, Pass{.again = true}, saved), saved);
  }
  Tensor dqkv;
  {
    Kept kept = kept_.take(saved);
    AttentionBackward op{.dy = out_layer_.backward(dy, saved).reshaped(kept.y.shape()),
                         .qkv = std::move(kept.qkv),
                         .causal = causal_,
                         .y = std::move(kept.y),
                         .statistics = std::move(kept.statistics)};
    op.dqkv = dqkv = layer::workspace(unit_, op.qkv.shape());
    unit_.device().kernels().attention_backward(op);
  }
  rotate(dqkv, true);
  return qkv_layer_.backward(dqkv, saved);
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
