// The factors of one AdamW step, equal on every device.
#pragma once

#include <cmath>

#include "core/device/ops.h"

namespace ringside {

/// Factors that the host computes, in fp64 where precision matters. A step updates a parameter p
/// with gradient g and moments m and v: m = beta1 * m + fresh1 * g; v = beta2 * v + fresh2 * g^2;
/// p = keep * p - rate * m / (sqrt(v) * root + epsilon).
struct AdamWFactors {
  float keep, beta1, fresh1, beta2, fresh2, rate, root, epsilon;

  static AdamWFactors of(const AdamW& op) {
    const auto step = static_cast<double>(op.step);
    const double correction1 = 1 - std::pow(static_cast<double>(op.beta1), step);
    const double correction2 = 1 - std::pow(static_cast<double>(op.beta2), step);
    return {.keep = 1 - op.lr * op.weight_decay,
            .beta1 = op.beta1,
            .fresh1 = 1 - op.beta1,
            .beta2 = op.beta2,
            .fresh2 = 1 - op.beta2,
            .rate = static_cast<float>(op.lr / correction1),
            .root = static_cast<float>(1 / std::sqrt(correction2)),
            .epsilon = op.epsilon};
  }
};

}  // namespace ringside
