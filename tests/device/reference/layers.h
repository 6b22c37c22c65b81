// Operations of layers on rows in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/ops.h"
#include "tests/device/reference/values.h"

namespace ringside::reference {

/// The product A * B. A is a, or its transpose if transpose_a is set; B likewise. A is [m, k] and B
/// is [k, n]; a and b are row-major.
inline Values product(const Values& a, bool transpose_a, const Values& b, bool transpose_b, Index m,
                      Index n, Index k) {
  Values c(at(m * n), 0.0);
  for (Index i = 0; i < m; ++i)
    for (Index l = 0; l < k; ++l) {
      const double left = a[at(transpose_a ? l * m + i : i * k + l)];
      for (Index j = 0; j < n; ++j)
        c[at(i * n + j)] += left * b[at(transpose_b ? j * k + l : l * n + j)];
    }
  return c;
}

inline double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

inline double activate(Activation kind, double x) {
  if (kind == Activation::gelu_erf) return x * normal_distribution(x);
  if (kind == Activation::tanh) return std::tanh(x);
  if (kind == Activation::relu) return x > 0 ? x : 0;
  if (kind == Activation::none) return x;
  const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

inline double slope(Activation kind, double x) {
  if (kind == Activation::gelu_erf)
    return normal_distribution(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
  if (kind == Activation::tanh) return 1 - std::tanh(x) * std::tanh(x);
  if (kind == Activation::relu) return x > 0 ? 1 : 0;
  if (kind == Activation::none) return 1;
  const double root = std::sqrt(2 / std::acos(-1.0));
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

struct LayerNorm {
  Values y, mean, rstd;
};
inline LayerNorm layer_norm(const Values& x, const Values& weight, const Values& bias, Index rows,
                            double epsilon = 1e-5) {
  const Index width = static_cast<Index>(weight.size());
  LayerNorm out{Values(x.size()), Values(at(rows)), Values(at(rows))};
  for (Index r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (Index c = 0; c < width; ++c) mean += x[at(r * width + c)] / static_cast<double>(width);
    for (Index c = 0; c < width; ++c) {
      const double d = x[at(r * width + c)] - mean;
      variance += d * d / static_cast<double>(width);
    }
    const double rstd = 1 / std::sqrt(variance + epsilon);
    out.mean[at(r)] = mean;
    out.rstd[at(r)] = rstd;
    for (Index c = 0; c < width; ++c)
      out.y[at(r * width + c)] = (x[at(r * width + c)] - mean) * rstd * weight[at(c)] + bias[at(c)];
  }
  return out;
}

struct LayerNormGradient {
  Values dx, dweight, dbias;
};
inline LayerNormGradient layer_norm_backward(const Values& dy, const Values& x,
                                             const Values& weight, Index rows) {
  const Index width = static_cast<Index>(weight.size());
  const LayerNorm forward = layer_norm(x, weight, Values(weight.size(), 0.0), rows);
  LayerNormGradient out{Values(x.size()), Values(weight.size(), 0.0), Values(weight.size(), 0.0)};
  for (Index r = 0; r < rows; ++r) {
    const double mean = forward.mean[at(r)], rstd = forward.rstd[at(r)];
    // Let n be the normalised row and C its width. Then d n_i / d x_j is
    // (delta_ij - 1 / C - n_i * n_j / C) * rstd. The terms 1 / C and n_i * n_j / C become the sums
    // `ones` and `normal` over the row.
    Values n(at(width));
    double ones = 0, normal = 0;
    for (Index j = 0; j < width; ++j) {
      n[at(j)] = (x[at(r * width + j)] - mean) * rstd;
      const double scaled = dy[at(r * width + j)] * weight[at(j)];
      ones += scaled / static_cast<double>(width);
      normal += n[at(j)] * scaled / static_cast<double>(width);
    }
    for (Index i = 0; i < width; ++i) {
      const double scaled = dy[at(r * width + i)] * weight[at(i)];
      out.dx[at(r * width + i)] = (scaled - ones - n[at(i)] * normal) * rstd;
      out.dweight[at(i)] += dy[at(r * width + i)] * n[at(i)];
      out.dbias[at(i)] += dy[at(r * width + i)];
    }
  }
  return out;
}

/// Attention over qkv [B, T, 3, H, D], with the probabilities [B, H, T, T] kept.
struct AttentionShape {
  Index samples, positions, heads, depth;
  bool causal;

  Index qkv(Index b, Index t, Index part, Index h, Index d) const {
    return (((b * positions + t) * 3 + part) * heads + h) * depth + d;
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
        for (Index k = 0; k < s.seen(t); ++k) {
          for (Index d = 0; d < s.depth; ++d)
            scores[at(k)] +=
                qkv[at(s.qkv(b, t, 0, h, d))] * qkv[at(s.qkv(b, k, 1, h, d))] * s.scale();
          most = std::max(most, scores[at(k)]);
        }
        for (double score : scores) sum += std::exp(score - most);
        out.statistics[at((b * s.heads + h) * s.positions + t)] = most + std::log(sum);
        for (Index k = 0; k < s.seen(t); ++k) {
          const double p = std::exp(scores[at(k)] - most) / sum;
          out.probabilities[at(s.p(b, h, t, k))] = p;
          for (Index d = 0; d < s.depth; ++d)
            out.y[at(s.y(b, t, h, d))] += p * qkv[at(s.qkv(b, k, 2, h, d))];
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
          for (Index d = 0; d < s.depth; ++d) {
            dp[at(k)] += dy[at(s.y(b, t, h, d))] * qkv[at(s.qkv(b, k, 2, h, d))];
            dqkv[at(s.qkv(b, k, 2, h, d))] += p * dy[at(s.y(b, t, h, d))];
          }
          mean += p * dp[at(k)];
        }
        for (Index k = 0; k < s.seen(t); ++k) {
          const double ds =
              forward.probabilities[at(s.p(b, h, t, k))] * (dp[at(k)] - mean) * s.scale();
          for (Index d = 0; d < s.depth; ++d) {
            dqkv[at(s.qkv(b, t, 0, h, d))] += ds * qkv[at(s.qkv(b, k, 1, h, d))];
            dqkv[at(s.qkv(b, k, 1, h, d))] += ds * qkv[at(s.qkv(b, t, 0, h, d))];
          }
        }
      }
  return dqkv;
}

struct Loss {
  Values losses, hits, dlogits;
};
inline Loss cross_entropy(const Values& logits, const std::vector<std::int32_t>& targets,
                          double scale) {
  const Index rows = static_cast<Index>(targets.size());
  const Index classes = static_cast<Index>(logits.size()) / rows;
  Loss out{Values(targets.size()), Values(targets.size()), Values(logits.size())};
  for (Index r = 0; r < rows; ++r) {
    if (targets[at(r)] < 0) continue;  // no target
    const double* row = logits.data() + r * classes;
    double most = row[0], sum = 0;
    for (Index j = 0; j < classes; ++j) most = std::max(most, row[j]);
    for (Index j = 0; j < classes; ++j) sum += std::exp(row[j] - most);
    const Index target = targets[at(r)];
    out.hits[at(r)] = row[target] >= most ? 1 : 0;
    out.losses[at(r)] = std::log(sum) + most - row[target];
    for (Index j = 0; j < classes; ++j)
      out.dlogits[at(r * classes + j)] =
          scale * (std::exp(row[j] - most) / sum - (j == target ? 1 : 0));
  }
  return out;
}

}  // namespace ringside::reference
