// Optimizer updates on flat ranges. This file is compiled without relaxed arithmetic, because the
// bits of an element must not depend on its place in the range (core/device/ops/flat.h).
#include "core/device/adamw_factors.h"
#include "core/device/cuda/kernels/elementwise.cuh"
#include "core/device/cuda/kernels/kernels.h"

namespace ringside::cuda {
namespace {

/// The arrays that an update of parameters of type T by gradients of type G reads and writes.
/// `values` are the master values, or the parameters themselves if their dtype is fp32. Gradients
/// are multiplied by `scale`.
template <class T, class G>
struct Range {
  T* parameters;
  const G* gradients;
  float* values;
  float scale;

  template <class Op>
  static Range of(const Op& op) {
    T* parameters = data<T>(op.parameters);
    const G* gradients = data<G>(op.gradients);
    if constexpr (std::is_same_v<T, float>)
      return {parameters, gradients, parameters, op.gradient_scale};
    else
      return {parameters, gradients, data<float>(op.master), op.gradient_scale};
  }

  template <int n>
  __device__ void update(std::int64_t i, const Floats<n>& updated) const {
    store_floats<n>(values + i, updated);
    if constexpr (!std::is_same_v<T, float>) store_floats<n>(parameters + i, updated);
  }
};

template <class T, class G>
struct AdamWStep {
  Range<T, G> range;
  float *first, *second;
  AdamWFactors with;

  template <int n>
  struct Operands {
    Pack<G, n> g;
    Pack<float, n> p, m, v;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    return {load<n>(range.gradients + i), load<n>(range.values + i), load<n>(first + i),
            load<n>(second + i)};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    const Floats<n> g = unpack(operands.g);
    Floats<n> p = unpack(operands.p), m = unpack(operands.m), v = unpack(operands.v);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float gradient = range.scale * g.at[e];
      m.at[e] = with.beta1 * m.at[e] + with.fresh1 * gradient;
      v.at[e] = with.beta2 * v.at[e] + with.fresh2 * (gradient * gradient);
      p.at[e] =
          with.keep * p.at[e] - with.rate * (m.at[e] / (sqrtf(v.at[e]) * with.root + with.epsilon));
    }
    store_floats<n>(first + i, m);
    store_floats<n>(second + i, v);
    range.template update<n>(i, p);
  }
};

enum class Velocity { none, begins, goes_on };

template <class T, class G, Velocity velocity, bool nesterov>
struct SgdStep {
  Range<T, G> range;
  float* velocities;
  float lr, decay, momentum;

  template <int n>
  struct Operands {
    Pack<G, n> g;
    Pack<float, n> p, u;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    Operands<n> out = {};
    out.g = load<n>(range.gradients + i);
    out.p = load<n>(range.values + i);
    if constexpr (velocity == Velocity::goes_on) out.u = load<n>(velocities + i);
    return out;
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    const Floats<n> g = unpack(operands.g);
    Floats<n> p = unpack(operands.p), u = {};
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float gradient = range.scale * g.at[e] + decay * p.at[e];
      u.at[e] = gradient;
      if constexpr (velocity == Velocity::goes_on) u.at[e] = momentum * operands.u.at[e] + gradient;
      p.at[e] -= lr * (nesterov ? gradient + momentum * u.at[e] : u.at[e]);
    }
    if constexpr (velocity != Velocity::none) store_floats<n>(velocities + i, u);
    range.template update<n>(i, p);
  }
};

template <class T, class G>
void adamw_step(const Context& context, const AdamW& op) {
  const auto range = Range<T, G>::of(op);
  auto *first = op.first_moment.data<float>(), *second = op.second_moment.data<float>();
  elementwise<4, 1>(context, "adamw", op.parameters.count(),
                    AdamWStep<T, G>{range, first, second, AdamWFactors::of(op)}, range.parameters,
                    range.gradients, range.values, first, second);
}

template <class T, class G, Velocity velocity, bool nesterov>
void sgd_step(const Context& context, const Sgd& op) {
  const auto range = Range<T, G>::of(op);
  auto* velocities = velocity == Velocity::none ? nullptr : op.velocity.data<float>();
  const SgdStep<T, G, velocity, nesterov> step{range, velocities, op.lr, op.weight_decay, op.momentum};
  const float* aligned = velocities ? velocities : range.values;
  elementwise<4, 2>(context, "sgd", op.parameters.count(), step, range.parameters, range.gradients,
                    range.values, aligned);
}

template <class T, class G>
void sgd_of(const Context& context, const Sgd& op) {
  // Step 1 sets the velocity to the gradient, without reading the velocity's memory.
  if (op.momentum == 0)
    sgd_step<T, G, Velocity::none, false>(context, op);
  else if (op.step == 1)
    op.nesterov ? sgd_step<T, G, Velocity::begins, true>(context, op)
                : sgd_step<T, G, Velocity::begins, false>(context, op);
  else
    op.nesterov ? sgd_step<T, G, Velocity::goes_on, true>(context, op)
                : sgd_step<T, G, Velocity::goes_on, false>(context, op);
}

/// Calls `visit` with the types of a parameter and of a gradient.
template <class Op, class Visit>
void with_types(const Op& op, const Visit& visit) {
  with_type(op.parameters.dtype(), [&]<class T>(std::type_identity<T> parameter) {
    if (op.gradients.dtype() == DType::f32)
      visit(parameter, std::type_identity<float>());
    else
      visit(parameter, parameter);
  });
}

}  // namespace

void adamw(const Context& context, const AdamW& op) {
  with_types(op, [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) {
    adamw_step<T, G>(context, op);
  });
}

void sgd(const Context& context, const Sgd& op) {
  with_types(op, [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) {
    sgd_of<T, G>(context, op);
  });
}

}  // namespace ringside::cuda
