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
      bias_(o.bias),
      q_layer_(unit, name + ".q", o.width, o.heads * o.head_width, o.q, std::nullopt),
      kv_layer_(unit, name + ".kv", o.width, 2 * o.heads * o.head_width, o.kv, std::nullopt),
      out_layer_(unit, name + ".out", o.heads * o.head_width, o.width, o.out, std::nullopt),
      kept_(unit),
      source_(unit) {}

Tensor CrossAttention::forward(const Tensor& x, const Tensor& memory, std::int64_t samples,
                               const Pass& pass, Saved& saved, Remake remake) {
  Pass inner = pass;
  if (pass.keep && !pass.keep_attention) {
    if (!remake) remake = [x](Saved&) { return x; };
    source_.keep(saved, {std::move(remake), memory, samples});
    inner.keep = false;
  }
  return out_layer_.forward(attend(x, memory, samples, inner, saved), inner, saved);
}

Tensor CrossAttention::attend(const Tensor& x, const Tensor& memory, std::int64_t samples,
                              const Pass& pass, Saved& saved) {
  CrossAttentionForward op{.q = q_layer_.forward(x, pass, saved),
                           .kv = kv_layer_.forward(memory ? memory : x, pass, saved),
                           .bias = bias_ ? saved.side()[*bias_].value : Tensor{},
                           .scale = scale_,
                           .causal = causal_};
  const std::int64_t queries = op.q.shape()[0] / samples, keys = op.kv.shape()[0] / samples;
  op.q = op.q.reshaped({samples, queries, heads_, head_width_});
  op.kv = op.kv.reshaped({samples, keys, 2 * heads_, head_width_});
  op.y = layer::activation(unit_, op.q.shape());
  op.statistics = layer::statistic(unit_, {samples, heads_, queries});
  unit_.device().kernels().cross_attention_forward(op);
  if (pass.keep) kept_.keep(saved, {op.q, op.kv, op.bias, op.y, op.statistics});
  return op.y;
}

CrossAttention::Gradients CrossAttention::backward(const Tensor& dy, Saved& saved) {
  if (source_.has(saved)) {
    const auto [remake, memory, samples] = source_.take(saved);
    out_layer_.keep(attend(remake(saved), memory, samples, Pass{.again = true}, saved), saved);
  }
  Tensor dq, dkv;
  {
    Kept kept = kept_.take(saved);
    CrossAttentionBackward op{.dy = out_layer_.backward(dy, saved).reshaped(kept.y.shape()),
                              .q = std::move(kept.q),
                              .kv = std::move(kept.kv),
                              .bias = std::move(kept.bias),
                              .scale = scale_,
                              .causal = causal_,
                              .y = std::move(kept.y),
                              .statistics = std::move(kept.statistics)};
    op.dq = dq = layer::workspace(unit_, op.q.shape());
    op.dkv = dkv = layer::workspace(unit_, op.kv.shape());
    if (op.bias) op.dbias = bias_gradient(saved.side());
    unit_.device().kernels().cross_attention_backward(op);
  }
  return {q_layer_.backward(dq, saved), kv_layer_.backward(dkv, saved)};
}

/// The gradient to which all blocks add; the first of a backward makes it.
Tensor CrossAttention::bias_gradient(SideValues& side) const {
  auto& [bias, gradient] = side[*bias_];
  if (!gradient) {
    gradient = unit_.device().tensor(bias.shape(), MemoryKind::workspace);
    unit_.device().kernels().fill({.out = gradient});
  }
  return gradient;
}

}  // namespace ringside
