// LAMB's two operations on flat ranges. Compiled without relaxed arithmetic: with it, the
// code for groups of elements and the code for single elements could round differently, and the
// bits of an element must not depend on its place in the range (core/device/ops/flat.h).
#include <cmath>

#include "core/device/cuda/kernels/elementwise.cuh"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/reduce.cuh"

namespace ringside::cuda {
namespace {

/// The factors of one step, computed on the host, in fp64 where precision matters. The direction of
/// the update is u = m * unbias / (sqrt(v) * root + epsilon) + decay * p, where p is a parameter, m
/// and v are its moments, and `unbias` and `root` correct the bias of m and of sqrt(v).
struct LambFactors {
  float beta1, fresh1, beta2, fresh2, unbias, root, epsilon, decay;

  template <class Op>
  static LambFactors of(const Op& op) {
    const auto step = static_cast<double>(op.step);
    const double correction1 = 1 - std::pow(static_cast<double>(op.beta1), step);
    const double correction2 = 1 - std::pow(static_cast<double>(op.beta2), step);
    return {.beta1 = op.beta1,
            .fresh1 = 1 - op.beta1,
            .beta2 = op.beta2,
            .fresh2 = 1 - op.beta2,
            .unbias = static_cast<float>(1 / correction1),
            .root = static_cast<float>(1 / std::sqrt(correction2)),
            .epsilon = op.epsilon,
            .decay = op.weight_decay};
  }
  __device__ float direction(float p, float m, float v) const {
    return m * unbias / (sqrtf(v) * root + epsilon) + decay * p;
  }
};

template <class T>
float* values_of(const Tensor& parameters, const Tensor& master) {
  if constexpr (std::is_same_v<T, float>)
    return parameters.data<float>();
  else
    return master.data<float>();
}

constexpr int threads = 256, groups = 2, width = 4;
constexpr std::int64_t stretch = std::int64_t{threads} * groups * width;
constexpr std::int64_t most_blocks = 1024;

template <class G>
struct Moments {
  const float* values;
  const G* gradients;
  float *first, *second;
  float scale;
  LambFactors with;
  double* parts;  // [blocks, 2]
  std::int64_t count;

  template <int n>
  struct Operands {
    Pack<G, n> g;
    Pack<float, n> p, m, v;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    return {load<n>(gradients + i), load<n>(values + i), load<n>(first + i), load<n>(second + i)};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands, double (&sums)[2]) const {
    const Floats<n> g = unpack(operands.g), p = unpack(operands.p);
    Floats<n> m = unpack(operands.m), v = unpack(operands.v);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float gradient = scale * g.at[e];
      m.at[e] = with.beta1 * m.at[e] + with.fresh1 * gradient;
      v.at[e] = with.beta2 * v.at[e] + with.fresh2 * (gradient * gradient);
      const double value = p.at[e], along = with.direction(p.at[e], m.at[e], v.at[e]);
      sums[0] = fma(value, value, sums[0]);
      sums[1] = fma(along, along, sums[1]);
    }
    store_floats<n>(first + i, m);
    store_floats<n>(second + i, v);
  }
};

/// Updates the moments, and sums the squares of the parameters and of the direction: one pair of
/// sums for each block. Each block takes every gridDim-th stretch of elements. In a stretch each
/// thread has `groups` groups of `width` elements. Which elements a thread adds to its sums, and in
/// which order, does not depend on their address: if the address is not aligned, the elements of a
/// group are read one by one.
template <class G>
__global__ __launch_bounds__(threads) void moments(Moments<G> op, bool aligned) {
  double sums[2] = {};
  for (std::int64_t begin = blockIdx.x * stretch; begin < op.count; begin += gridDim.x * stretch) {
    typename Moments<G>::template Operands<width> operands[groups] = {};
    const auto place = [&](int g) {
      return begin + (g * threads + std::int64_t{threadIdx.x}) * width;
    };
#pragma unroll
    for (int g = 0; g < groups; ++g)
      if (aligned && place(g) + width <= op.count) operands[g] = op.template read<width>(place(g));
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (aligned && place(g) + width <= op.count) {
        op.write(place(g), operands[g], sums);
      } else {
        for (std::int64_t i = place(g); i < place(g) + width && i < op.count; ++i)
          op.template write<1>(i, op.template read<1>(i), sums);
      }
    }
  }
  block_sum(sums, 0);
  if (threadIdx.x != 0) return;
  op.parts[2 * blockIdx.x] = sums[0];
  op.parts[2 * blockIdx.x + 1] = sums[1];
}

__global__ __launch_bounds__(threads) void sum_moments(const double* parts, int count,
                                                       double* out) {
  double sums[2] = {};
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
    sums[0] += parts[2 * i];
    sums[1] += parts[2 * i + 1];
  }
  block_sum(sums, 0);
  if (threadIdx.x != 0) return;
  store_exact(sums[0], out);
  store_exact(sums[1], out + ExactSum::digits);
}

template <class T>
struct Updating {
  T* parameters;
  float* values;
  const float *first, *second;
  float rate;
  LambFactors with;

  template <int n>
  struct Operands {
    Pack<float, n> p, m, v;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    return {load<n>(values + i), load<n>(first + i), load<n>(second + i)};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    Floats<n> p = unpack(operands.p);
    const Floats<n> m = unpack(operands.m), v = unpack(operands.v);
#pragma unroll
    for (int e = 0; e < n; ++e) p.at[e] -= rate * with.direction(p.at[e], m.at[e], v.at[e]);
    store_floats<n>(values + i, p);
    if constexpr (!std::is_same_v<T, float>) store_floats<n>(parameters + i, p);
  }
};

/// G is the type of the gradients.
template <class G>
void moments_of(const Context& context, const LambMoments& op) {
  const std::int64_t count = op.parameters.count();
  const unsigned blocks = blocks_for(count, stretch, most_blocks);
  const auto scratch =
      context.device.allocate(2 * most_blocks * sizeof(double), MemoryKind::workspace);
  const Tensor& values = op.master ? op.master : op.parameters;
  const Moments<G> with{.values = values.data<float>(),
                        .gradients = data<G>(op.gradients),
                        .first = op.first_moment.data<float>(),
                        .second = op.second_moment.data<float>(),
                        .scale = op.gradient_scale,
                        .with = LambFactors::of(op),
                        .parts = reinterpret_cast<double*>(scratch->data()),
                        .count = count};
  const bool aligned = is_aligned(with.values, width) && is_aligned(with.gradients, width) &&
                       is_aligned(with.first, width) && is_aligned(with.second, width);
  launch(context, "lamb_moments", moments<G>, blocks, threads, with, aligned);
  launch(context, "lamb_moments", sum_moments, 1, threads, with.parts, static_cast<int>(blocks),
         op.squares.data<double>());
}

template <class T>
void update_of(const Context& context, const LambUpdate& op) {
  const Updating<T> body{data<T>(op.parameters),
                         values_of<T>(op.parameters, op.master),
                         op.first_moment.data<float>(),
                         op.second_moment.data<float>(),
                         op.rate,
                         LambFactors::of(op)};
  elementwise<4, 2>(context, "lamb_update", op.parameters.count(), body, body.parameters,
                    body.values, body.first, body.second);
}

}  // namespace

void lamb_moments(const Context& context, const LambMoments& op) {
  with_type(op.gradients.dtype(),
            [&]<class G>(std::type_identity<G>) { moments_of<G>(context, op); });
}

void lamb_update(const Context& context, const LambUpdate& op) {
  with_type(op.parameters.dtype(),
            [&]<class T>(std::type_identity<T>) { update_of<T>(context, op); });
}

}  // namespace ringside::cuda
