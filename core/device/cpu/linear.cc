// Linear layers: the bias, oneDNN's matrix product and the activation.
#include <algorithm>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/vector_math.h"

namespace ringside::cpu {
namespace {

// gelu(x) = x * s(2 * u), where u = sqrt(2 / pi) * (x + 0.044715 * x^3) and s is the logistic
// function, s(v) = 1 / (1 + e^-v). This equals the usual x * (1 + tanh(u)) / 2.
constexpr float two_root = 1.5957691216f;  // 2 * sqrt(2 / pi)
constexpr float cubic = 0.044715f;

inline float gelu(float x) { return x / (1.0f + exponential(-two_root * (x + cubic * x * x * x))); }

inline float gelu_slope(float x) {
  const float s = 1.0f / (1.0f + exponential(-two_root * (x + cubic * x * x * x)));
  return s + x * s * (1.0f - s) * (two_root * (1.0f + 3.0f * cubic * x * x));
}

/// The standard normal distribution at one value: the probability of values below it, and the
/// density.
struct Normal {
  float below, density;
};
/// The error of `below` is at most 1e-7. The tail is computed by formula 7.1.26 of Abramowitz and
/// Stegun, so a small probability is not the difference of two large numbers.
inline Normal normal(float x) {
  constexpr float root_half = 0.7071067812f, density_at_0 = 0.3989422804f;
  const float z = (x < 0 ? -x : x) * root_half;
  const float e = exponential(-z * z);
  const float t = 1.0f / (1.0f + 0.3275911f * z);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = 0.5f * p * t * e;
  return {x < 0 ? tail : 1.0f - tail, density_at_0 * e};
}

inline float hyperbolic_tangent(float x) {
  const float e = exponential(-2.0f * (x < 0 ? -x : x));
  const float t = (1.0f - e) / (1.0f + e);
  return x < 0 ? -t : t;
}

void activate(Activation activation, const float* __restrict pre, float* __restrict y,
              std::int64_t count) {
  if (activation == Activation::gelu) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = gelu(pre[i]);
  } else if (activation == Activation::gelu_erf) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = pre[i] * normal(pre[i]).below;
  } else if (activation == Activation::tanh) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = hyperbolic_tangent(pre[i]);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = pre[i] < 0 ? 0.0f : pre[i];
  }
}

/// dy *= the derivative of the activation at `pre`.
void deactivate(Activation activation, const float* __restrict pre, float* __restrict dy,
                std::int64_t count) {
  if (activation == Activation::gelu) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) dy[i] *= gelu_slope(pre[i]);
  } else if (activation == Activation::gelu_erf) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const Normal n = normal(pre[i]);
      dy[i] *= n.below + pre[i] * n.density;
    }
  } else if (activation == Activation::tanh) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float t = hyperbolic_tangent(pre[i]);
      dy[i] *= 1.0f - t * t;
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) dy[i] = pre[i] > 0 ? dy[i] : 0.0f;
  }
}

void add_row(const float* __restrict row, float* __restrict sum, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sum[i] += row[i];
}

}  // namespace

void linear_forward(const Context& context, const LinearForward& op) {
  const std::int64_t rows = op.x.shape()[0], in = op.weight.shape()[1], out = op.weight.shape()[0];
  const bool active = op.activation != Activation::none;
  float* product = active ? op.pre.data<float>() : op.y.data<float>();
  float* y = op.y.data<float>();
  const std::int64_t grain = 1 + (1 << 14) / std::max<std::int64_t>(out, 1);

  // The bias is written to the result first, and the product is added to it. This is cheaper than
  // adding the bias in a second pass over the result.
  if (op.bias) {
    const float* bias = op.bias.data<float>();
    parallel_for(context.threads, rows, grain, [=](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row)
        std::copy(bias, bias + out, product + row * out);
    });
  }
  gemm(context.threads, {.transpose_b = true,
                         .m = rows,
                         .n = out,
                         .k = in,
                         .a = op.x.data<float>(),
                         .lda = in,
                         .b = op.weight.data<float>(),
                         .ldb = in,
                         .beta = op.bias ? 1.0f : 0.0f,
                         .c = product,
                         .ldc = out});
  if (active) {
    parallel_for(context.threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
      activate(op.activation, product + begin * out, y + begin * out, (end - begin) * out);
    });
  }
}

void linear_backward(const Context& context, const LinearBackward& op) {
  const std::int64_t rows = op.dy.shape()[0], out = op.dy.shape()[1];
  const bool active = op.activation != Activation::none;
  float* dy = op.dy.data<float>();
  float* dbias = op.dbias.data<float>();

  // Each thread has some of the columns, so that every column is summed in the order of the rows.
  if (active || op.dbias) {
    const float* pre = op.pre.data<float>();
    parallel_for(context.threads, out, 64, [&](std::int64_t begin, std::int64_t end, int) {
      const std::int64_t count = end - begin;
      if (dbias) std::fill(dbias + begin, dbias + end, 0.0f);
      for (std::int64_t row = 0; row < rows; ++row) {
        float* dy_row = dy + row * out + begin;
        if (active) deactivate(op.activation, pre + row * out + begin, dy_row, count);
        if (dbias) add_row(dy_row, dbias + begin, count);
      }
    });
  }
  if (op.dx) {
    const std::int64_t in = op.dx.shape()[1];
    gemm(context.threads, {.m = rows,
                           .n = in,
                           .k = out,
                           .a = dy,
                           .lda = out,
                           .b = op.weight.data<float>(),
                           .ldb = in,
                           .c = op.dx.data<float>(),
                           .ldc = in});
  }
  if (op.dweight) {
    const std::int64_t in = op.x.shape()[1];
    gemm(context.threads, {.transpose_a = true,
                           .m = out,
                           .n = in,
                           .k = rows,
                           .a = dy,
                           .lda = out,
                           .b = op.x.data<float>(),
                           .ldb = in,
                           .c = op.dweight.data<float>(),
                           .ldc = in});
  }
}

}  // namespace ringside::cpu
