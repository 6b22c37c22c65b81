// LAMB's two passes over a layer. Compiled without relaxed arithmetic, because the bits must not
// depend on the place in the range (core/device/ops/flat.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/adamw_factors.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t block = 1 << 14;  // elements whose squares are added up together
constexpr std::int64_t lanes = 16;       // sums side by side, in one vector or several

/// u = m rate / (sqrt(v) root + epsilon) + decay p. The factors are AdamW's for lr = 1.
struct Direction {
  float rate, root, epsilon, decay;

  template <class Op>
  static Direction of(const Op& op) {
    const auto with = AdamWFactors::of({.lr = 1,
                                        .beta1 = op.beta1,
                                        .beta2 = op.beta2,
                                        .epsilon = op.epsilon,
                                        .weight_decay = op.weight_decay,
                                        .step = op.step});
    return {with.rate, with.root, with.epsilon, op.weight_decay};
  }
  float operator()(float p, float m, float v) const {
    return rate * (m / (std::sqrt(v) * root + epsilon)) + decay * p;
  }
};

struct Squares {
  double parameters = 0, directions = 0;
};

template <class T>
Squares moments(const LambMoments& op, std::int64_t begin, std::int64_t end) {
  const Direction direction = Direction::of(op);
  const float beta1 = op.beta1, beta2 = op.beta2, fresh1 = 1 - beta1, fresh2 = 1 - beta2;
  const float scale = op.gradient_scale;
  const T* __restrict gradients = op.gradients.data<T>();
  const float* __restrict p = (op.master ? op.master : op.parameters).template data<float>();
  float* __restrict m = op.first_moment.data<float>();
  float* __restrict v = op.second_moment.data<float>();
  double of_p[lanes] = {}, of_u[lanes] = {};
  const auto visit = [&](std::int64_t i, std::int64_t lane) {
    const float g = scale * load(gradients[i]);
    m[i] = beta1 * m[i] + fresh1 * g;
    v[i] = beta2 * v[i] + fresh2 * (g * g);
    const double value = p[i], u = direction(p[i], m[i], v[i]);
    of_p[lane] += value * value;
    of_u[lane] += u * u;
  };
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) visit(i + lane, lane);
  for (std::int64_t lane = 0; i < end; ++i, ++lane) visit(i, lane);
  Squares out;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    out.parameters += of_p[lane];
    out.directions += of_u[lane];
  }
  return out;
}

template <class T>
void update(const LambUpdate& op, std::int64_t begin, std::int64_t end) {
  const Direction direction = Direction::of(op);
  const float rate = op.rate;
  float* __restrict p = (op.master ? op.master : op.parameters).template data<float>();
  const float* __restrict m = op.first_moment.data<float>();
  const float* __restrict v = op.second_moment.data<float>();
  for (std::int64_t i = begin; i < end; ++i) p[i] -= rate * direction(p[i], m[i], v[i]);
  if (!op.master) return;
  T* __restrict published = op.parameters.data<T>();
  for (std::int64_t i = begin; i < end; ++i) store(published[i], p[i]);
}

}  // namespace

void lamb_moments(const Context& context, const LambMoments& op) {
  const std::int64_t count = op.parameters.count(), blocks = (count + block - 1) / block;
  // One entry for each block of a fixed size, so that the result does not depend on the threads.
  std::vector<Squares> squares(static_cast<std::size_t>(blocks));
  parallel_for(context.threads, blocks, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t b = first; b < last; ++b)
      with_float_type(op.gradients.dtype(), [&]<class T>(T) {
        squares[static_cast<std::size_t>(b)] =
            moments<T>(op, b * block, std::min((b + 1) * block, count));
      });
  });
  Squares sum;
  for (const auto& of_block : squares) {
    sum.parameters += of_block.parameters;
    sum.directions += of_block.directions;
  }
  double* out = op.squares.data<double>();
  out[0] = sum.parameters;
  out[1] = sum.directions;
}

void lamb_update(const Context& context, const LambUpdate& op) {
  parallel_for(context.threads, op.parameters.count(), block,
               [&](std::int64_t begin, std::int64_t end, int) {
                 with_float_type(op.parameters.dtype(),
                                 [&]<class T>(T) { update<T>(op, begin, end); });
               });
}

}  // namespace ringside::cpu
