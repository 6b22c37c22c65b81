// Operations of layers on rows in float64.
#pragma once

#include <algorithm>
#include <cmath>

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

struct RmsNorm {
  Values y, rstd;
};
inline RmsNorm rms_norm(const Values& x, const Values& weight, Index rows, double epsilon = 1e-5) {
  const Index width = static_cast<Index>(weight.size());
  RmsNorm out{Values(x.size()), Values(at(rows))};
  for (Index r = 0; r < rows; ++r) {
    double squares = 0;
    for (Index c = 0; c < width; ++c) squares += x[at(r * width + c)] * x[at(r * width + c)];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    out.rstd[at(r)] = rstd;
    for (Index c = 0; c < width; ++c)
      out.y[at(r * width + c)] = x[at(r * width + c)] * rstd * weight[at(c)];
  }
  return out;
}

struct RmsNormGradient {
  Values dx, dweight;
};
inline RmsNormGradient rms_norm_backward(const Values& dy, const Values& x, const Values& weight,
                                         Index rows) {
  const Index width = static_cast<Index>(weight.size());
  const RmsNorm forward = rms_norm(x, weight, rows);
  RmsNormGradient out{Values(x.size()), Values(weight.size(), 0.0)};
  for (Index r = 0; r < rows; ++r) {
    const double rstd = forward.rstd[at(r)];
    // d (x_i * rstd) / d x_j is delta_ij * rstd - x_i * x_j * rstd^3 / C.
    double dot = 0;
    for (Index j = 0; j < width; ++j)
      dot += dy[at(r * width + j)] * weight[at(j)] * x[at(r * width + j)];
    for (Index i = 0; i < width; ++i) {
      const double g = dy[at(r * width + i)], value = x[at(r * width + i)];
      out.dx[at(r * width + i)] =
          g * weight[at(i)] * rstd - value * dot * rstd * rstd * rstd / static_cast<double>(width);
      out.dweight[at(i)] += g * value * rstd;
    }
  }
  return out;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double silu_slope(double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  return sigmoid * (1 + x * (1 - sigmoid));
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
