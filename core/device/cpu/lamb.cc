// LAMB's two passes over a layer. Compiled without relaxed arithmetic, because an element's bits
// must not depend on its place in the range (core/device/ops/flat.h).
#include <algorithm>
#include <cmath>

#include "core/device/adamw_factors.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/squares.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 14;  // fewer elements are not worth a thread

/// The direction rate * m / (root * sqrt(v) + epsilon) + decay * p for a parameter p with the first
/// moment m and the second moment v. The factors `rate` and `root` are AdamW's for lr = 1.
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
  ExactSum parameters, directions;

  void add(const Squares& other) {
    parameters.add(other.parameters);
    directions.add(other.directions);
  }
};

/// Updates the moments of elements [begin, end), at most squares_block of them, and adds the
/// squares of their parameters and directions to `squares`.
template <class T>
void moments(const LambMoments& op, std::int64_t begin, std::int64_t end, Squares& squares) {
  const Direction direction = Direction::of(op);
  const float beta1 = op.beta1, beta2 = op.beta2, fresh1 = 1 - beta1, fresh2 = 1 - beta2;
  const float scale = op.gradient_scale;
  const T* __restrict gradients = op.gradients.data<T>();
  const float* __restrict p = (op.master ? op.master : op.parameters).template data<float>();
  float* __restrict m = op.first_moment.data<float>();
  float* __restrict v = op.second_moment.data<float>();
  float along[squares_block];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * load(gradients[i]);
    m[i] = beta1 * m[i] + fresh1 * g;
    v[i] = beta2 * v[i] + fresh2 * (g * g);
    along[i - begin] = direction(p[i], m[i], v[i]);
  }
  add_squares(p + begin, end - begin, squares.parameters);
  add_squares(along, end - begin, squares.directions);
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
  const std::int64_t count = op.parameters.count();
  const std::int64_t blocks = (count + squares_block - 1) / squares_block;
  const auto sums = exact_sum<Squares>(
      context.threads, blocks, grain / squares_block, [&](std::int64_t block, Squares& squares) {
        const std::int64_t begin = block * squares_block, end = begin + squares_block;
        with_float_type(op.gradients.dtype(),
                        [&]<class T>(T) { moments<T>(op, begin, std::min(end, count), squares); });
      });
  sums.parameters.store(stored_sum(op.squares, 0));
  sums.directions.store(stored_sum(op.squares, 1));
}

void lamb_update(const Context& context, const LambUpdate& op) {
  parallel_for(context.threads, op.parameters.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 with_float_type(op.parameters.dtype(),
                                 [&]<class T>(T) { update<T>(op, begin, end); });
               });
}

}  // namespace ringside::cpu
