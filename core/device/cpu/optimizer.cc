// Optimizer updates on flat ranges. Compiled without relaxed arithmetic, because the bits of an
// element must not depend on its place in the range (core/device/ops/flat.h).
#include <cmath>
#include <type_traits>

#include "core/device/adamw_factors.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 14;  // fewer elements are not worth a thread

/// What an update reads and writes. `values` are the master values, or the parameters themselves if
/// these have fp32.
template <class T>
struct UpdateOperands {
  T* parameters;
  const T* gradients;
  float* values;
  float scale;  // of the gradients

  template <class Op>
  static UpdateOperands of(const Op& op) {
    T* parameters = op.parameters.template data<T>();
    const T* gradients = op.gradients.template data<T>();
    if constexpr (std::is_same_v<T, float>)
      return {parameters, gradients, parameters, op.gradient_scale};
    else
      return {parameters, gradients, op.master.template data<float>(), op.gradient_scale};
  }
  UpdateOperands from(std::int64_t begin) const {
    return {parameters + begin, gradients + begin, values + begin, scale};
  }
};

/// Writes the master values, rounded, to the parameters, unless they are the same memory.
template <class T>
void publish(const UpdateOperands<T>& range, std::int64_t count) {
  if constexpr (!std::is_same_v<T, float>)
    for (std::int64_t i = 0; i < count; ++i) store(range.parameters[i], range.values[i]);
}

template <class T>
void plain_step(const UpdateOperands<T>& range, std::int64_t count, float lr, float decay) {
  float* __restrict p = range.values;
  const T* __restrict g = range.gradients;
  const float scale = range.scale;
  for (std::int64_t i = 0; i < count; ++i) p[i] -= lr * (scale * load(g[i]) + decay * p[i]);
}

/// At step 1 the velocity becomes the gradient, whatever its memory held.
template <bool first, bool nesterov, class T>
void momentum_step(const UpdateOperands<T>& range, float* __restrict u, std::int64_t count,
                   float lr, float decay, float momentum) {
  float* __restrict p = range.values;
  const T* __restrict gradients = range.gradients;
  const float scale = range.scale;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = scale * load(gradients[i]) + decay * p[i];
    u[i] = first ? g : momentum * u[i] + g;
    p[i] -= lr * (nesterov ? g + momentum * u[i] : u[i]);
  }
}

template <class T>
void adamw_step(const Context& context, const AdamW& op) {
  const auto with = AdamWFactors::of(op);
  const auto all = UpdateOperands<T>::of(op);
  float* m_all = op.first_moment.data<float>();
  float* v_all = op.second_moment.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 float* __restrict p = all.values;
                 float* __restrict m = m_all;
                 float* __restrict v = v_all;
                 const T* __restrict gradients = all.gradients;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float g = all.scale * load(gradients[i]);
                   m[i] = with.beta1 * m[i] + with.fresh1 * g;
                   v[i] = with.beta2 * v[i] + with.fresh2 * (g * g);
                   p[i] = with.keep * p[i] -
                          with.rate * (m[i] / (std::sqrt(v[i]) * with.root + with.epsilon));
                 }
                 publish(all.from(begin), end - begin);
               });
}

template <class T>
void sgd_step(const Context& context, const Sgd& op) {
  const float lr = op.lr, decay = op.weight_decay, momentum = op.momentum;
  const auto with_momentum =
      op.step == 1 ? (op.nesterov ? momentum_step<true, true, T> : momentum_step<true, false, T>)
                   : (op.nesterov ? momentum_step<false, true, T> : momentum_step<false, false, T>);
  const auto all = UpdateOperands<T>::of(op);
  float* u_all = op.velocity.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 const UpdateOperands<T> range = all.from(begin);
                 if (momentum == 0)
                   plain_step(range, end - begin, lr, decay);
                 else
                   with_momentum(range, u_all + begin, end - begin, lr, decay, momentum);
                 publish(range, end - begin);
               });
}

}  // namespace

void adamw(const Context& context, const AdamW& op) {
  with_float_type(op.parameters.dtype(), [&]<class T>(T) { adamw_step<T>(context, op); });
}

void sgd(const Context& context, const Sgd& op) {
  with_float_type(op.parameters.dtype(), [&]<class T>(T) { sgd_step<T>(context, op); });
}

}  // namespace ringside::cpu
