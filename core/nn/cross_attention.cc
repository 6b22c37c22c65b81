#include "core/nn/cross_attention.h"

#include <utility>

#include "core/nn/layer_tensors.h"

namespace ringside {

CrossAttention::CrossAttention(Unit& unit, const std::string& name, const CrossAttentionOptions& o)
    : unit_(unit),
      heads_(o.heads),
      head_width_(o.head_width),
      scale_(o.scale),
      causal_(o.causal),
      shared_(o.bias),
      q_layer_(unit, name + ".q", o.width, o.heads * o.head_width, o.q, std::nullopt),
      kv_layer_(unit, name + ".kv", o.width, 2 * o.heads * o.head_width, o.kv, std::nullopt),
      out_layer_(unit, name + ".out", o.heads * o.head_width, o.width, o.out, std::nullopt) {}

Tensor CrossAttention::forward(const Tensor& x, const Tensor& memory, std::int64_t samples,
                               const Pass& pass, Remake remake) {
  if (pass.keep) remake_ = {}, memory_ = {};  // an earlier forward may have had no backward
  if (!pass.keep || pass.keep_attention)
    return out_layer_.forward(attend(x, memory, samples, pass), pass);
  remake_ = remake ? std::move(remake) : [x] { return x; };
  memory_ = memory;
  samples_ = samples;
  Pass dropping = pass;
  dropping.keep = false;
  return out_layer_.forward(attend(x, memory, samples, dropping), dropping);
}

Tensor CrossAttention::attend(const Tensor& x, const Tensor& memory, std::int64_t samples,
                              const Pass& pass) {
  CrossAttentionForward op{.q = q_layer_.forward(x, pass),
                           .kv = kv_layer_.forward(memory ? memory : x, pass),
                           .bias = shared_ ? shared_->values : Tensor{},
                           .scale = scale_,
                           .causal = causal_};
  const std::int64_t queries = op.q.shape()[0] / samples, keys = op.kv.shape()[0] / samples;
  op.q = op.q.reshaped({samples, queries, heads_, head_width_});
  op.kv = op.kv.reshaped({samples, keys, 2 * heads_, head_width_});
  op.y = layer::activation(unit_, op.q.shape());
  op.statistics = layer::statistic(unit_, {samples, heads_, queries});
  unit_.device().kernels().cross_attention_forward(op);
  if (pass.keep) {
    q_ = op.q;
    kv_ = op.kv;
    bias_ = op.bias;
    y_ = op.y;
    statistics_ = op.statistics;
  }
  return op.y;
}

CrossAttention::Gradients CrossAttention::backward(const Tensor& dy) {
  if (const Remake remake = std::exchange(remake_, {}))
    out_layer_.keep(attend(remake(), std::exchange(memory_, {}), samples_, Pass{.again = true}));
  Tensor dq, dkv;
  {
    CrossAttentionBackward op{.dy = out_layer_.backward(dy).reshaped(y_.shape()),
                              .q = std::move(q_),
                              .kv = std::move(kv_),
                              .bias = std::move(bias_),
                              .scale = scale_,
                              .causal = causal_,
                              .y = std::move(y_),
                              .statistics = std::move(statistics_)};
    op.dq = dq = layer::workspace(unit_, op.q.shape());
    op.dkv = dkv = layer::workspace(unit_, op.kv.shape());
    if (op.bias) op.dbias = bias_gradient();
    unit_.device().kernels().cross_attention_backward(op);
  }
  return {q_layer_.backward(dq), kv_layer_.backward(dkv)};
}

/// The gradient to which all blocks add; the first of a backward makes it.
Tensor CrossAttention::bias_gradient() const {
  Tensor& gradient = shared_->gradient;
  if (!gradient) {
    gradient = unit_.device().tensor(shared_->values.shape(), MemoryKind::workspace);
    unit_.device().kernels().fill({.out = gradient});
  }
  return gradient;
}

}  // namespace ringside
