// Attention, and positions as rotations. See core/device/ops.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/tensor/tensor.h"

namespace ringside {

/// Scaled dot-product attention with scale 1 / sqrt(D). There are H heads of queries, and K heads
/// of keys and of values; K divides H, and H / K neighbouring heads of queries read the same keys
/// and values (Ainslie et al. 2023). Each position of `qkv` holds the heads of queries, then those
/// of keys, then those of values.
struct AttentionForward {
  Tensor qkv{};  // [B, T, H + 2 * K, D]
  bool causal = true;
  Tensor y{};  // [B, T, H, D]
  // [B, H, T] fp32: log-sum-exp of each row of scores; backward recomputes probabilities with it
  Tensor statistics{};
};
struct AttentionBackward {
  Tensor dy{};   // [B, T, H, D]
  Tensor qkv{};  // [B, T, H + 2 * K, D]
  bool causal = true;
  Tensor y{}, statistics{};  // as in the forward
  Tensor dqkv{};             // [B, T, H + 2 * K, D]
};
/// K: how many heads of keys an attention with these queries, keys, values and results has.
inline std::int64_t key_heads_of(const Tensor& qkv, const Tensor& y) {
  return (qkv.shape()[2] - y.shape()[2]) / 2;
}

/// Attention of T queries to S keys and values that lie in a tensor of their own: those of another
/// sequence or, with T = S, of the same. The score of query t and key s is scale * (q[t] * k[s]) +
/// bias[s - t + T - 1]: a bias depends on the distance from the query to the key (Raffel et al.
/// 2020).
struct CrossAttentionForward {
  Tensor q{};     // [B, T, H, D]
  Tensor kv{};    // [B, S, 2 * H, D]: the heads of keys, then those of values
  Tensor bias{};  // [T + S - 1, H], optional
  float scale = 1;
  bool causal = false;  // only with T = S
  Tensor y{};           // [B, T, H, D]
  Tensor statistics{};  // [B, H, T] fp32: log-sum-exp of each row of scores
};
struct CrossAttentionBackward {
  Tensor dy{};               // [B, T, H, D]
  Tensor q{}, kv{}, bias{};  // as in the forward, like the next two
  float scale = 1;           // not 0
  bool causal = false;
  Tensor y{}, statistics{};  // as in the forward
  Tensor dq{};               // [B, T, H, D]
  Tensor dkv{};              // [B, S, 2 * H, D]
  Tensor dbias{};            // [T + S - 1, H] fp32, added to; needed if there is a bias
};

/// Rotary positions (Su et al. 2021): turns each pair of elements i and i + D / 2 of a head at
/// position t by the angle t * rotary_frequency(i), in place; with `inverse` by the opposite angle.
/// Heads from number `heads` on stay as they are.
struct Rotary {
  Tensor x{};  // [B, T, G, D], D even and at most 512
  std::int64_t heads = 0;
  double base = 10000, factor = 1;
  bool inverse = false;
};
/// base^(-2 i / D). With a `factor` above 1, as in Llama 3.1 (Grattafiori et al. 2024), a wave
/// longer than 8192 positions becomes `factor` times as long, a wave shorter than 2048 positions
/// stays, and between them the share of the longer wave grows with the number of waves in 8192
/// positions.
inline double rotary_frequency(const Rotary& op, std::int64_t i) {
  const auto depth = static_cast<double>(op.x.shape()[3]);
  const double frequency = std::pow(op.base, -2 * static_cast<double>(i) / depth);
  const double waves = 8192 * frequency / (2 * std::numbers::pi);
  const double share = std::clamp((waves - 1) / 3, 0.0, 1.0);
  return frequency * (share + (1 - share) / op.factor);
}

}  // namespace ringside
