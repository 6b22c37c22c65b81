// Self attention.
#pragma once

#include <optional>

#include "core/nn/layers.h"

namespace ringside {

/// Positions as rotations of queries and keys; see Rotary in core/device/ops/attention.h.
struct RotaryPositions {
  double base = 10000, factor = 1;
};

struct AttentionOptions {
  std::int64_t width = 0;
  /// Heads of queries; they must divide the width, and `key_heads` must divide them.
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;  // heads of keys, and of values
  bool causal = true;
  bool bias = true;  // of both linear layers; biases start at 0
  std::optional<RotaryPositions> rotary{};
  Init qkv{}, out{};
};

/// Multi-head self attention (Vaswani et al. 2017), with fewer heads of keys and values than of
/// queries if the options say so (Ainslie et al. 2023). Parameters: those of the linear layers
/// "NAME.qkv" (width -> width / heads * (heads + 2 * key_heads): queries, keys, values, each
/// divided into heads) and "NAME.out".
///
/// Where a pass does not keep attention, nothing of the layer stays between forward and backward:
/// no queries, keys, values, result, or sums of scores. backward() makes them again with the same
/// bits. This takes 2 * width * width / heads * (heads + 2 * key_heads) operations a row, and the
/// operations of the attention. The layer NAME.out is not computed again. (Korthikanti et al. 2022
/// recompute the scores alone; kernels here never keep scores.)
class SelfAttention {
 public:
  SelfAttention(Unit& unit, const std::string& name, const AttentionOptions& options);

  /// Maps [M, width] to [M, width]; the rows are those of `samples` samples with M / samples
  /// positions each. Where the pass does not keep attention, backward() gets x from `remake`;
  /// without one, x is kept.
  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved,
                 Remake remake = {});
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  struct Kept {
    Tensor qkv, y, statistics;
  };
  /// Kept instead where the pass does not keep attention.
  struct Source {
    Remake remake;
    std::int64_t samples;
  };

  /// Computes everything but the layer NAME.out. Keeps what backward() needs if the pass says so.
  Tensor attend(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved);
  void rotate(const Tensor& qkv, bool inverse) const;

  Unit& unit_;
  std::int64_t heads_, key_heads_, head_width_;
  bool causal_;
  std::optional<RotaryPositions> rotary_;
  Linear qkv_layer_, out_layer_;
  Slot<Kept> kept_;
  Slot<Source> source_;
};

}  // namespace ringside
