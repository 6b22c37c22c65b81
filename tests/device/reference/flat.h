// Flat operations in float64.
#pragma once

#include <array>
#include <cmath>

#include "core/device/ops.h"
#include "core/num/random.h"
#include "tests/device/reference/values.h"

namespace ringside::reference {

inline double sum_of_squares(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

inline Values compensated(const Values& gradients, const Values& now, const Values& read,
                          double scale) {
  Values out = gradients;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] += scale * gradients[i] * gradients[i] * (now[i] - read[i]);
  return out;
}

/// Computes the random words anew for each element, although four elements share the same words.
inline Values dropout(const Dropout& op, const Values& in) {
  Values out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint64_t e = static_cast<std::uint64_t>(op.first) + i, block = e / 4;
    const auto words = philox({static_cast<std::uint32_t>(block),
                               static_cast<std::uint32_t>(block >> 32), op.layer, op.step},
                              dropout_key(op.seed));
    const bool kept = !(words[e % 4] < double{op.probability} * 0x1p32);
    out.push_back(kept ? in[i] / (1 - double{op.probability}) : 0);
  }
  return out;
}

struct Updated {
  Values parameters, first, second;
};
inline Updated adamw(const AdamW& op, const Values& p, const Values& g, const Values& m,
                     const Values& v) {
  Updated out{p, m, v};
  const double b1 = op.beta1, b2 = op.beta2, step = static_cast<double>(op.step);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double gradient = op.gradient_scale * g[i];
    out.parameters[i] -= double{op.lr} * op.weight_decay * p[i];
    out.first[i] = b1 * m[i] + (1 - b1) * gradient;
    out.second[i] = b2 * v[i] + (1 - b2) * gradient * gradient;
    const double first = out.first[i] / (1 - std::pow(b1, step));
    const double second = out.second[i] / (1 - std::pow(b2, step));
    out.parameters[i] -= op.lr * first / (std::sqrt(second) + op.epsilon);
  }
  return out;
}
inline Updated sgd(const Sgd& op, const Values& p, const Values& g, const Values& u) {
  Updated out{p, u, {}};
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double gradient = op.gradient_scale * g[i] + double{op.weight_decay} * p[i];
    out.first[i] = op.step == 1 ? gradient : double{op.momentum} * u[i] + gradient;
    out.parameters[i] -=
        op.lr * (op.nesterov ? gradient + op.momentum * out.first[i] : out.first[i]);
  }
  return out;
}

/// The direction that LAMB multiplies by its rate and subtracts; `m` and `v` are the moments after
/// lamb_moments() of this step.
template <class Op>
Values lamb_direction(const Op& op, const Values& p, const Values& m, const Values& v) {
  Values out(p.size());
  const double step = static_cast<double>(op.step);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double first = m[i] / (1 - std::pow(double{op.beta1}, step));
    const double second = v[i] / (1 - std::pow(double{op.beta2}, step));
    out[i] = first / (std::sqrt(second) + op.epsilon) + double{op.weight_decay} * p[i];
  }
  return out;
}
inline Updated lamb_moments(const LambMoments& op, const Values& p, const Values& g,
                            const Values& m, const Values& v) {
  Updated out{p, m, v};
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double gradient = op.gradient_scale * g[i];
    out.first[i] = double{op.beta1} * m[i] + (1 - double{op.beta1}) * gradient;
    out.second[i] = double{op.beta2} * v[i] + (1 - double{op.beta2}) * gradient * gradient;
  }
  return out;
}

}  // namespace ringside::reference
