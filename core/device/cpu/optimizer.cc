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

/// The arrays that an update of parameters of type T by gradients of type G reads and writes.
/// `values` are the master values, or the parameters themselves if these have fp32.
template <class T, class G>
struct UpdateOperands {
  T* parameters;
  const G* gradients;
  float* values;
  float scale;  // of the gradients

  template <class Op>
  static UpdateOperands of(const Op& op) {
    T* parameters = op.parameters.template data<T>();
    const G* gradients = op.gradients.template data<G>();
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
template <class T, class G>
void publish(const UpdateOperands<T, G>& range, std::int64_t count) {
  if constexpr (!std::is_same_v<T, float>)
    for (std::int64_t i = 0; i < count; ++i) store(range.parameters[i], range.values[i]);
}

template <class T, class G>
void plain_step(const UpdateOperands<T, G>& range, std::int64_t count, float lr, float decay) {
  float* __restrict p = range.values;
  const G* __restrict g = range.gradients;
  const float scale = range.scale;
  for (std::int64_t i = 0; i < count; ++i) p[i] -= lr * (scale * load(g[i]) + decay * p[i]);
}

/// At step 1 the velocity becomes the gradient, whatever its memory held.
template <bool first, bool nesterov, class T, class G>
void momentum_step(const UpdateOperands<T, G>& range, float* __restrict u, std::int64_t count,
                   float lr, float decay, float momentum) {
  float* __restrict p = range.values;
  const G* __restrict gradients = range.gradients;
  const float scale = range.scale;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = scale * load(gradients[i]) + decay * p[i];
    u[i] = first ? g : momentum * u[i] + g;
    p[i] -= lr * (nesterov ? g + momentum * u[i] : u[i]);
  }
}

template <class T, class G>
void adamw_step(const Context& context, const AdamW& op) {
  const auto with = AdamWFactors::of(op);
  const auto all = UpdateOperands<T, G>::of(op);
  float* m_all = op.first_moment.data<float>();
  float* v_all = op.second_moment.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 float* __restrict p = all.values;
                 float* __restrict m = m_all;
                 float* __restrict v = v_all;
                 const G* __restrict gradients = all.gradients;
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

template <class T, class G>
void sgd_step(const Context& context, const Sgd& op) {
  const float lr = op.lr, decay = op.weight_decay, momentum = op.momentum;
  const auto with_momentum =
      op.step == 1
          ? (op.nesterov ? momentum_step<true, true, T, G> : momentum_step<true, false, T, G>)
          : (op.nesterov ? momentum_step<false, true, T, G> : momentum_step<false, false, T, G>);
  const auto all = UpdateOperands<T, G>::of(op);
  float* u_all = op.velocity.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 const UpdateOperands<T, G> range = all.from(begin);
                 if (momentum == 0)
                   plain_step(range, end - begin, lr, decay);
                 else
                   with_momentum(range, u_all + begin, end - begin, lr, decay, momentum);
                 publish(range, end - begin);
               });
}

/// Calls `visit` with a parameter and a gradient.
template <class Op, class Visit>
void with_types(const Op& op, const Visit& visit) {
  with_float_type(op.parameters.dtype(), [&]<class T>(T parameter) {
    if (op.gradients.dtype() == DType::f32)
      visit(parameter, float{});
    else
      visit(parameter, T{});
  });
}

}  // namespace

void adamw(const Context& context, const AdamW& op) {
  with_types(op, [&]<class T, class G>(T, G) { adamw_step<T, G>(context, op); });
}

void sgd(const Context& context, const Sgd& op) {
  with_types(op, [&]<class T, class G>(T, G) { sgd_step<T, G>(context, op); });
}

}  // namespace ringside::cpu
