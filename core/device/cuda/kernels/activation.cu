#include "core/device/cuda/kernels/activation.h"

#include "core/device/cuda/kernels/elementwise.cuh"

namespace ringside::cuda {
namespace {

// gelu(x) = x * (1 + tanh(u)) / 2, with u = sqrt(2 / pi) * (x + 0.044715 * x^3). The kernels
// compute (1 + tanh(u)) / 2 as s(2 * u), where s is the logistic function.
constexpr float two_root = 1.5957691216f;  // 2 * sqrt(2 / pi)
constexpr float cubic = 0.044715f;

/// Returns s(2 * u).
__device__ __forceinline__ float logistic(float x) {
  return 1.0f / (1.0f + __expf(-two_root * (x + cubic * x * x * x)));
}

/// The normal distribution function, which is (1 + erf(x / sqrt(2))) / 2. It is computed by another
/// formula, because in the sum 1 + erf(x / sqrt(2)) digits cancel if x is below 0.
__device__ __forceinline__ float normal(float x) { return 0.5f * erfcf(-0.70710678f * x); }
__device__ __forceinline__ float normal_density(float x) {
  return 0.39894228f * __expf(-0.5f * x * x);
}

template <Activation kind>
__device__ __forceinline__ float value_of(float x) {
  if constexpr (kind == Activation::relu)
    return x < 0 ? 0.0f : x;
  else if constexpr (kind == Activation::gelu)
    return x * logistic(x);
  else if constexpr (kind == Activation::gelu_erf)
    return x * normal(x);
  else
    return tanhf(x);
}
template <Activation kind>
__device__ __forceinline__ float slope_of(float x) {
  if constexpr (kind == Activation::relu) {
    return x > 0 ? 1.0f : 0.0f;
  } else if constexpr (kind == Activation::gelu) {
    const float s = logistic(x);
    return s + x * s * (1.0f - s) * (two_root * (1.0f + 3.0f * cubic * x * x));
  } else if constexpr (kind == Activation::gelu_erf) {
    return normal(x) + x * normal_density(x);
  } else {
    const float t = tanhf(x);
    return (1.0f - t) * (1.0f + t);
  }
}

template <class T, Activation kind>
struct Activating {
  const T* pre;
  T* y;

  template <int n>
  __device__ Pack<T, n> read(std::int64_t i) const {
    return load<n>(pre + i);
  }
  template <int n>
  __device__ void write(std::int64_t i, const Pack<T, n>& operand) const {
    Floats<n> values = unpack(operand);
#pragma unroll
    for (int e = 0; e < n; ++e) values.at[e] = value_of<kind>(values.at[e]);
    store_floats<n>(y + i, values);
  }
};

template <class T, Activation kind>
struct Deactivating {
  const T* pre;
  T* dy;

  template <int n>
  struct Operands {
    Pack<T, n> pre, dy;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    return {load<n>(pre + i), load<n>(dy + i)};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    const Floats<n> x = unpack(operands.pre);
    Floats<n> gradient = unpack(operands.dy);
#pragma unroll
    for (int e = 0; e < n; ++e) gradient.at[e] *= slope_of<kind>(x.at[e]);
    store_floats<n>(dy + i, gradient);
  }
};

constexpr int bias_threads = 256;

/// Each block adds the bias to one row.
template <class T>
__global__ __launch_bounds__(bias_threads) void bias_rows(const T* bias, T* x, std::int64_t width) {
  T* row = x + blockIdx.x * width;
  for (std::int64_t c = threadIdx.x; c < width; c += bias_threads)
    store_float(row + c, load_float(row + c) + load_float(bias + c));
}

template <class T, Activation kind>
void activate_range(const Context& context, const Tensor& pre, const Tensor& y) {
  const Activating<T, kind> body{data<T>(pre), data<T>(y)};
  elementwise<in_16_bytes<T>, 2>(context, "activate", y.count(), body, body.pre, body.y);
}
template <class T, Activation kind>
void deactivate_range(const Context& context, const Tensor& pre, const Tensor& dy) {
  const Deactivating<T, kind> body{data<T>(pre), data<T>(dy)};
  elementwise<in_16_bytes<T>, 2>(context, "deactivate", dy.count(), body, body.pre, body.dy);
}

template <class T>
void activate_of(const Context& context, Activation activation, const Tensor& pre,
                 const Tensor& y) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return activate_range<T, Activation::relu>(context, pre, y);
    case Activation::gelu:
      return activate_range<T, Activation::gelu>(context, pre, y);
    case Activation::gelu_erf:
      return activate_range<T, Activation::gelu_erf>(context, pre, y);
    case Activation::tanh:
      return activate_range<T, Activation::tanh>(context, pre, y);
  }
}
template <class T>
void deactivate_of(const Context& context, Activation activation, const Tensor& pre,
                   const Tensor& dy) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return deactivate_range<T, Activation::relu>(context, pre, dy);
    case Activation::gelu:
      return deactivate_range<T, Activation::gelu>(context, pre, dy);
    case Activation::gelu_erf:
      return deactivate_range<T, Activation::gelu_erf>(context, pre, dy);
    case Activation::tanh:
      return deactivate_range<T, Activation::tanh>(context, pre, dy);
  }
}

template <class T>
void add_bias_of(const Context& context, const Tensor& bias, const Tensor& x) {
  launch(context, "add_bias", bias_rows<T>, blocks_for(x.shape()[0], 1), bias_threads,
         data<T>(bias), data<T>(x), x.shape()[1]);
}

}  // namespace

void activate(const Context& context, Activation activation, const Tensor& pre, const Tensor& y) {
  with_type(y.dtype(),
            [&]<class T>(std::type_identity<T>) { activate_of<T>(context, activation, pre, y); });
}

void deactivate(const Context& context, Activation activation, const Tensor& pre,
                const Tensor& dy) {
  with_type(dy.dtype(), [&]<class T>(std::type_identity<T>) {
    deactivate_of<T>(context, activation, pre, dy);
  });
}

void add_bias(const Context& context, const Tensor& bias, const Tensor& x) {
  with_type(x.dtype(), [&]<class T>(std::type_identity<T>) { add_bias_of<T>(context, bias, x); });
}

}  // namespace ringside::cuda
