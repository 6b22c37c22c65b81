// Attention to a second sequence, or to the same with a bias for each distance.
#pragma once

#include <optional>
#include <string>

#include "core/nn/layers.h"

namespace ringside {

struct CrossAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;
  std::int64_t head_width = 1;
  float scale = 1;                    // of scores
  bool causal = false;                // only for a sequence that attends to itself
  std::optional<std::size_t> bias{};  // of scores: the model's edge that has it
  Init q{}, kv{}, out{};
};

/// Multi-head attention (Vaswani et al. 2017) whose queries come from one sequence, and whose keys
/// and values come from another or from the same. Parameters: those of linear layers without
/// biases, "NAME.q" (width -> heads * head_width), "NAME.kv" (width -> 2 * heads * head_width:
/// keys, then values, each divided into heads) and "NAME.out" (heads * head_width -> width). Where
/// a pass does not keep attention, backward() recomputes it as SelfAttention does.
class CrossAttention {
 public:
  CrossAttention(Unit& unit, const std::string& name, const CrossAttentionOptions& options);

  /// Maps x [M, width], the rows of `samples` samples, to [M, width]. `memory` [N, width] holds
  /// what the samples attend to; if it is empty, they attend to x. Where the pass does not keep
  /// attention, backward() gets x from `remake`, and the memory and the bias are read again;
  /// without `remake`, x is kept.
  Tensor forward(const Tensor& x, const Tensor& memory, std::int64_t samples, const Pass& pass,
                 Saved& saved, Remake remake = {});

  struct Gradients {
    Tensor x, memory;
  };
  /// Adds the bias's part of the gradient to the gradient of its edge, which is fp32.
  Gradients backward(const Tensor& dy, Saved& saved);

 private:
  struct Kept {
    Tensor q, kv, bias, y, statistics;
  };
  /// Kept instead where the pass does not keep attention: the arguments of forward().
  struct Source {
    Remake remake;
    Tensor memory;
    std::int64_t samples;
  };

  /// Computes everything but the layer NAME.out. Keeps what backward() needs if the pass says so.
  Tensor attend(const Tensor& x, const Tensor& memory, std::int64_t samples, const Pass& pass,
                Saved& saved);
  Tensor bias_gradient(SideValues& side) const;

  Unit& unit_;
  std::int64_t heads_, head_width_;
  float scale_;
  bool causal_;
  std::optional<std::size_t> bias_;
  Linear q_layer_, kv_layer_, out_layer_;
  Slot<Kept> kept_;
  Slot<Source> source_;
};

}  // namespace ringside
