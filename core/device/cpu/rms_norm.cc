#include <algorithm>
#include <cmath>

#include "core/device/cpu/row_sums.h"

namespace ringside::cpu {
namespace {

float sum_of_squares(const float* row, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += row[c] * row[c];
  return sum;
}

/// Adds the row's part to dweight. Returns the mean of dy * weight * (the normalised row).
float add_weight_gradient(float rstd, const float* __restrict dy, const float* __restrict x,
                          const float* __restrict weight, float* __restrict dweight,
                          std::int64_t width) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t c = 0; c < width; ++c) {
    const float normal = x[c] * rstd;
    dot += dy[c] * weight[c] * normal;
    dweight[c] += dy[c] * normal;
  }
  return dot / static_cast<float>(width);
}

/// Writes the row's dx, to which `residual` is added. `residual` may be null, and may be dx.
void input_gradient(float rstd, float onto, const float* dy, const float* x, const float* weight,
                    float* dx, const float* residual, std::int64_t width) {
  if (residual) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c)
      dx[c] = (dy[c] * weight[c] - x[c] * rstd * onto) * rstd + residual[c];
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c)
      dx[c] = (dy[c] * weight[c] - x[c] * rstd * onto) * rstd;
  }
}

}  // namespace

void rms_norm_forward(const Context& context, const RmsNormForward& op) {
  const std::int64_t rows = op.x.shape()[0], width = op.x.shape()[1];
  const float* weight = op.weight.data<float>();
  float* rstd = op.rstd.data<float>();
  parallel_for(context.threads, rows, row_grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = op.x.data<float>() + r * width;
      float* y = op.y.data<float>() + r * width;
      if (op.residual) {
        // If the sum is not wanted, it is kept in y, which is overwritten below.
        float* sum = op.sum ? op.sum.data<float>() + r * width : y;
        add_rows(row, op.residual.data<float>() + r * width, sum, width);
        row = sum;
      }
      const float scale =
          1 / std::sqrt(sum_of_squares(row, width) / static_cast<float>(width) + op.epsilon);
      rstd[r] = scale;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) y[c] = row[c] * scale * weight[c];
    }
  });
}

void rms_norm_backward(const Context& context, const RmsNormBackward& op) {
  const std::int64_t rows = op.x.shape()[0], width = op.x.shape()[1];
  const float* weight = op.weight.data<float>();
  const float* residual = op.dresidual.data<float>();
  float* dx = op.dx.data<float>();
  const Tensor sums =
      sum_over_rows(context, rows, width, [&](std::int64_t r, float* __restrict dweight) {
        const float* dy = op.dy.data<float>() + r * width;
        const float* x = op.x.data<float>() + r * width;
        const float rstd = op.rstd.data<float>()[r];
        const float onto = add_weight_gradient(rstd, dy, x, weight, dweight, width);
        input_gradient(rstd, onto, dy, x, weight, dx + r * width,
                       residual ? residual + r * width : nullptr, width);
      });
  std::copy_n(sums.data<float>(), width, op.dweight.data<float>());
}

}  // namespace ringside::cpu
