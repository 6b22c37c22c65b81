// Optimizer updates on flat ranges. Compiled without relaxed arithmetic: see ops.h.
#include <cmath>
#include <type_traits>

#include "core/device/adamw_factors.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 14;  // elements that are worth a thread

/// What an update reads and writes: `values` are the parameters themselves, or their masters.
template <class T>
struct Range {
  T* parameters;
  const T* gradients;
  float* values;

  template <class Op>
  static Range of(const Op& op) {
    if constexpr (std::is_same_v<T, float>)
      return {op.parameters.template data<T>(), op.gradients.template data<T>(),
              op.parameters.template data<T>()};
    else
      return {op.parameters.template data<T>(), op.gradients.template data<T>(),
              op.master.template data<float>()};
  }
  Range from(std::int64_t begin) const {
    return {parameters + begin, gradients + begin, values + begin};
  }
};

/// Master values reach the parameters.
template <class T>
void publish(const Range<T>& range, std::int64_t count) {
  if constexpr (!std::is_same_v<T, float>)
    for (std::int64_t i = 0; i < count; ++i) store(range.parameters[i], range.values[i]);
}

template <class T>
void plain_step(const Range<T>& range, std::int64_t count, float lr, float decay) {
  float* __restrict p = range.values;
  const T* __restrict g = range.gradients;
  for (std::int64_t i = 0; i < count; ++i) p[i] -= lr * (load(g[i]) + decay * p[i]);
}

template <class T>
void first_step(const Range<T>& range, float* __restrict u, std::int64_t count, float lr,
                float decay) {
  float* __restrict p = range.values;
  const T* __restrict g = range.gradients;
  for (std::int64_t i = 0; i < count; ++i) {
    u[i] = load(g[i]) + decay * p[i];
    p[i] -= lr * u[i];
  }
}

template <class T>
void momentum_step(const Range<T>& range, float* __restrict u, std::int64_t count, float lr,
                   float decay, float momentum) {
  float* __restrict p = range.values;
  const T* __restrict g = range.gradients;
  for (std::int64_t i = 0; i < count; ++i) {
    u[i] = momentum * u[i] + (load(g[i]) + decay * p[i]);
    p[i] -= lr * u[i];
  }
}

template <class T>
void adamw_step(const Context& context, const AdamW& op) {
  const auto with = AdamWFactors::of(op);
  const auto all = Range<T>::of(op);
  float* m_all = op.first_moment.data<float>();
  float* v_all = op.second_moment.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 float* __restrict p = all.values;
                 float* __restrict m = m_all;
                 float* __restrict v = v_all;
                 const T* __restrict gradients = all.gradients;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float g = load(gradients[i]);
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
  // At step 1 the velocity is the gradient itself, whatever its memory held.
  const bool first = op.step == 1;
  const auto all = Range<T>::of(op);
  float* u_all = op.velocity.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 const Range<T> range = all.from(begin);
                 if (momentum == 0)
                   plain_step(range, end - begin, lr, decay);
                 else if (first)
                   first_step(range, u_all + begin, end - begin, lr, decay);
                 else
                   momentum_step(range, u_all + begin, end - begin, lr, decay, momentum);
                 publish(range, end - begin);
               });
}

}  // namespace

void adamw(const Context& context, const AdamW& op) {
  op.parameters.dtype() == DType::bf16 ? adamw_step<bf16>(context, op)
                                       : adamw_step<float>(context, op);
}

void sgd(const Context& context, const Sgd& op) {
  op.parameters.dtype() == DType::bf16 ? sgd_step<bf16>(context, op) : sgd_step<float>(context, op);
}

}  // namespace ringside::cpu
