// Attention and rotary positions in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/ops.h"
#include "tests/device/reference/values.h"

namespace ringside::reference {

/// Attention over qkv [B, T, H + 2 * K, D], with the probabilities [B, H, T, T] kept. Head h of the
/// queries reads head h / (H / K) of the keys and values.
struct AttentionShape {
  Index samples, positions, heads, key_heads, depth;
  bool causal;

  Index width() const { return heads + 2 * key_heads; }
  Index q(Index b, Index t, Index h, Index d) const {
    return ((b * positions + t) * width() + h) * depth + d;
  }
  Index k(Index b, Index t, Index h, Index d) const {
    return q(b, t, heads + h / (heads / key_heads), d);
  }
  Index v(Index b, Index t, Index h, Index d) const {
    return q(b, t, heads + key_heads + h / (heads / key_heads), d);
  }
  Index y(Index b, Index t, Index h, Index d) const {
    return ((b * positions + t) * heads + h) * depth + d;
  }
  Index p(Index b, Index h, Index t, Index s) const {
    return ((b * heads + h) * positions + t) * positions + s;
  }
  Index seen(Index t) const { return causal ? t + 1 : positions; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(depth)); }
};
struct Attention {
  Values y, statistics, probabilities;
};
inline Attention attention(const Values& qkv, const AttentionShape& s) {
  Attention out{Values(at(s.samples * s.positions * s.heads * s.depth), 0.0),
                Values(at(s.samples * s.heads * s.positions)),
                Values(at(s.samples * s.heads * s.positions * s.positions), 0.0)};
  for (Index b = 0; b < s.samples; ++b)
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = 0; t < s.positions; ++t) {
        Values scores(at(s.seen(t)), 0.0);
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        const double scale = s.scale(), *query = &qkv[at(s.q(b, t, h, 0))];
        for (Index k = 0; k < s.seen(t); ++k) {
          const double* key = &qkv[at(s.k(b, k, h, 0))];
          for (Index d = 0; d < s.depth; ++d) scores[at(k)] += query[d] * key[d] * scale;
          most = std::max(most, scores[at(k)]);
        }
        for (double score : scores) sum += std::exp(score - most);
        out.statistics[at((b * s.heads + h) * s.positions + t)] = most + std::log(sum);
        for (Index k = 0; k < s.seen(t); ++k) {
          const double p = std::exp(scores[at(k)] - most) / sum;
          out.probabilities[at(s.p(b, h, t, k))] = p;
          double* y = &out.y[at(s.y(b, t, h, 0))];
          const double* value = &qkv[at(s.v(b, k, h, 0))];
          for (Index d = 0; d < s.depth; ++d) y[d] += p * value[d];
        }
      }
  return out;
}
inline Values attention_backward(const Values& dy, const Values& qkv, const AttentionShape& s) {
  const Attention forward = attention(qkv, s);
  Values dqkv(qkv.size(), 0.0);
  for (Index b = 0; b < s.samples; ++b)
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = 0; t < s.positions; ++t) {
        Values dp(at(s.seen(t)), 0.0);
        double mean = 0;
        for (Index k = 0; k < s.seen(t); ++k) {
          const double p = forward.probabilities[at(s.p(b, h, t, k))];
          const double *from = &dy[at(s.y(b, t, h, 0))], *value = &qkv[at(s.v(b, k, h, 0))];
          double* dvalue = &dqkv[at(s.v(b, k, h, 0))];
          for (Index d = 0; d < s.depth; ++d) {
            dp[at(k)] += from[d] * value[d];
            dvalue[d] += p * from[d];
          }
          mean += p * dp[at(k)];
        }
        for (Index k = 0; k < s.seen(t); ++k) {
          const double ds =
              forward.probabilities[at(s.p(b, h, t, k))] * (dp[at(k)] - mean) * s.scale();
          const std::size_t query = at(s.q(b, t, h, 0)), key = at(s.k(b, k, h, 0));
          for (std::size_t d = 0; d < at(s.depth); ++d) {
            dqkv[query + d] += ds * qkv[key + d];
            dqkv[key + d] += ds * qkv[query + d];
          }
        }
      }
  return dqkv;
}

/// Attention of q [B, T, H, D] to kv [B, S, 2 * H, D], with biases [T + S - 1, H].
struct CrossShape {
  Index samples, queries, keys, heads, depth;
  bool causal;
  double scale;

  Index q(Index b, Index t, Index h, Index d) const {
    return ((b * queries + t) * heads + h) * depth + d;
  }
  Index k(Index b, Index s, Index h, Index d) const {
    return ((b * keys + s) * 2 * heads + h) * depth + d;
  }
  Index v(Index b, Index s, Index h, Index d) const { return k(b, s, heads + h, d); }
  Index bias(Index t, Index s, Index h) const { return (s - t + queries - 1) * heads + h; }
  Index row(Index b, Index h, Index t) const { return (b * heads + h) * queries + t; }
  Index seen(Index t) const { return causal ? t + 1 : keys; }
};
inline Attention cross_attention(const Values& q, const Values& kv, const Values& bias,
                                 const CrossShape& s) {
  const Index rows = s.samples * s.heads * s.queries;
  Attention out{Values(q.size(), 0.0), Values(at(rows)), Values(at(rows * s.keys), 0.0)};
  for (Index b = 0; b < s.samples; ++b)
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = 0; t < s.queries; ++t) {
        Values scores(at(s.seen(t)), 0.0);
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        for (Index k = 0; k < s.seen(t); ++k) {
          for (Index d = 0; d < s.depth; ++d)
            scores[at(k)] += s.scale * q[at(s.q(b, t, h, d))] * kv[at(s.k(b, k, h, d))];
          if (!bias.empty()) scores[at(k)] += bias[at(s.bias(t, k, h))];
          most = std::max(most, scores[at(k)]);
        }
        for (double score : scores) sum += std::exp(score - most);
        out.statistics[at(s.row(b, h, t))] = most + std::log(sum);
        for (Index k = 0; k < s.seen(t); ++k) {
          const double p = std::exp(scores[at(k)] - most) / sum;
          out.probabilities[at(s.row(b, h, t) * s.keys + k)] = p;
          for (Index d = 0; d < s.depth; ++d)
            out.y[at(s.q(b, t, h, d))] += p * kv[at(s.v(b, k, h, d))];
        }
      }
  return out;
}
struct CrossGradients {
  Values q, kv, bias;
};
inline CrossGradients cross_attention_backward(const Values& dy, const Values& q, const Values& kv,
                                               const Values& bias, const CrossShape& s) {
  const Attention forward = cross_attention(q, kv, bias, s);
  CrossGradients out{Values(q.size(), 0.0), Values(kv.size(), 0.0),
                     Values(at((s.queries + s.keys - 1) * s.heads), 0.0)};
  for (Index b = 0; b < s.samples; ++b)
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = 0; t < s.queries; ++t) {
        const double* p = &forward.probabilities[at(s.row(b, h, t) * s.keys)];
        Values dp(at(s.seen(t)), 0.0);
        double mean = 0;
        for (Index k = 0; k < s.seen(t); ++k) {
          for (Index d = 0; d < s.depth; ++d) {
            dp[at(k)] += dy[at(s.q(b, t, h, d))] * kv[at(s.v(b, k, h, d))];
            out.kv[at(s.v(b, k, h, d))] += p[k] * dy[at(s.q(b, t, h, d))];
          }
          mean += p[k] * dp[at(k)];
        }
        for (Index k = 0; k < s.seen(t); ++k) {
          const double ds = p[k] * (dp[at(k)] - mean);
          out.bias[at(s.bias(t, k, h))] += ds;
          for (Index d = 0; d < s.depth; ++d) {
            out.q[at(s.q(b, t, h, d))] += s.scale * ds * kv[at(s.k(b, k, h, d))];
            out.kv[at(s.k(b, k, h, d))] += s.scale * ds * q[at(s.q(b, t, h, d))];
          }
        }
      }
  return out;
}

/// The frequencies of rotary positions as Hugging Face's `_compute_llama3_parameters` has them,
/// with low_freq_factor 1, high_freq_factor 4 and original_max_position_embeddings 8192.
inline double rotary_frequency(double base, double factor, Index pair, Index depth) {
  const double frequency =
      1 / std::pow(base, 2 * static_cast<double>(pair) / static_cast<double>(depth));
  const double wave = 2 * std::acos(-1.0) / frequency;
  if (wave > 8192) return frequency / factor;
  if (wave < 2048) return frequency;
  const double smooth = (8192 / wave - 1) / 3;
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace ringside::reference
