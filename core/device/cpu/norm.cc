// Layer norm and RMS norm: rows are normalised one by one.
#include <algorithm>
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t row_grain = 32;  // fewer rows are not worth a thread

/// out = a + b; `out` may be a or b.
void add_rows(const float* a, const float* b, float* out, std::int64_t count) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) out[c] = a[c] + b[c];
}

/// Calls row(r, sums) for every row; `row` adds the row's part to `count` sums. Returns a tensor
/// that begins with the sums. Parts of the rows have sums of their own, which are added up in
/// order. The number of parts depends on the number of rows alone.
template <class Row>
Tensor sum_over_rows(const Context& context, std::int64_t rows, std::int64_t count, Row row) {
  const std::int64_t parts = std::clamp<std::int64_t>(rows / row_grain, 1, 16);
  Tensor sums = context.device.tensor(Shape{parts, count}, MemoryKind::workspace, DType::f32);
  float* const all = sums.data<float>();
  parallel_for(context.threads, parts, 1, [&](std::int64_t part_begin, std::int64_t part_end, int) {
    for (std::int64_t part = part_begin; part < part_end; ++part) {
      float* const own = all + part * count;
      std::fill_n(own, count, 0.0f);
      for (std::int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) row(r, own);
    }
  });
  for (std::int64_t part = 1; part < parts; ++part) add_rows(all, all + part * count, all, count);
  return sums;
}

/// Calls normalise(row number, row of x, row of y) for each row. If there is a residual, it is
/// added to x first.
template <class Op, class Normalise>
void for_each_row(const Context& context, const Op& op, Normalise normalise) {
  const std::int64_t rows = op.x.shape()[0], width = op.x.shape()[1];
  parallel_for(context.threads, rows, row_grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = op.x.template data<float>() + r * width;
      float* y = op.y.template data<float>() + r * width;
      if (op.residual) {
        // If the sum is not wanted, it is kept in y, which is overwritten below.
        float* sum = op.sum ? op.sum.template data<float>() + r * width : y;
        add_rows(row, op.residual.template data<float>() + r * width, sum, width);
        row = sum;
      }
      normalise(r, row, y);
    }
  });
}

struct RowStatistics {
  float mean, rstd;
};

/// Makes two passes over the row, to avoid cancellation. The second pass reads it from the cache.
RowStatistics statistics(const float* __restrict row, std::int64_t width, float epsilon) {
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += row[c];
  const float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < width; ++c) {
    const float centred = row[c] - mean;
    squares += centred * centred;
  }
  return {mean, 1 / std::sqrt(squares / static_cast<float>(width) + epsilon)};
}

/// For a row: the mean of dy * weight, and the mean of dy * weight * (the normalised row).
struct Projections {
  float ones, normal;
};

/// Adds the row's part to dweight and dbias. Returns the row's projections.
Projections add_parameter_gradients(RowStatistics row, const float* __restrict dy,
                                    const float* __restrict x, const float* __restrict weight,
                                    float* __restrict dweight, float* __restrict dbias,
                                    std::int64_t width) {
  float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (std::int64_t c = 0; c < width; ++c) {
    const float normal = (x[c] - row.mean) * row.rstd;
    const float scaled = dy[c] * weight[c];
    sum += scaled;
    dot += scaled * normal;
    dweight[c] += dy[c] * normal;
    dbias[c] += dy[c];
  }
  return {sum / static_cast<float>(width), dot / static_cast<float>(width)};
}

/// Writes the row's dx, to which `residual` is added. `residual` may be null, and may be dx.
void input_gradient(RowStatistics row, Projections onto, const float* dy, const float* x,
                    const float* weight, float* dx, const float* residual, std::int64_t width) {
  if (residual) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      const float normal = (x[c] - row.mean) * row.rstd;
      dx[c] = (dy[c] * weight[c] - onto.ones - normal * onto.normal) * row.rstd + residual[c];
    }
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      const float normal = (x[c] - row.mean) * row.rstd;
      dx[c] = (dy[c] * weight[c] - onto.ones - normal * onto.normal) * row.rstd;
    }
  }
}

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

void layer_norm_forward(const Context& context, const LayerNormForward& op) {
  const std::int64_t width = op.x.shape()[1];
  const float* weight = op.weight.data<float>();
  const float* bias = op.bias.data<float>();
  float* mean = op.mean.data<float>();
  float* rstd = op.rstd.data<float>();
  for_each_row(context, op, [&](std::int64_t r, const float* row, float* y) {
    const RowStatistics m = statistics(row, width, op.epsilon);
    mean[r] = m.mean;
    rstd[r] = m.rstd;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c)
      y[c] = (row[c] - m.mean) * m.rstd * weight[c] + bias[c];
  });
}

void layer_norm_backward(const Context& context, const LayerNormBackward& op) {
  const std::int64_t rows = op.x.shape()[0], width = op.x.shape()[1];
  const float* weight = op.weight.data<float>();
  const float* residual = op.dresidual.data<float>();
  float* dx_all = op.dx.data<float>();

  const Tensor sums =
      sum_over_rows(context, rows, 2 * width, [&](std::int64_t r, float* __restrict gradients) {
        const float* dy = op.dy.data<float>() + r * width;
        const float* x = op.x.data<float>() + r * width;
        const RowStatistics row{op.mean.data<float>()[r], op.rstd.data<float>()[r]};
        const Projections onto =
            add_parameter_gradients(row, dy, x, weight, gradients, gradients + width, width);
        input_gradient(row, onto, dy, x, weight, dx_all + r * width,
                       residual ? residual + r * width : nullptr, width);
      });
  std::copy_n(sums.data<float>(), width, op.dweight.data<float>());
  std::copy_n(sums.data<float>() + width, width, op.dbias.data<float>());
}

void rms_norm_forward(const Context& context, const RmsNormForward& op) {
  const std::int64_t width = op.x.shape()[1];
  const float* weight = op.weight.data<float>();
  float* rstd = op.rstd.data<float>();
  for_each_row(context, op, [&](std::int64_t r, const float* row, float* y) {
    const float scale =
        1 / std::sqrt(sum_of_squares(row, width) / static_cast<float>(width) + op.epsilon);
    rstd[r] = scale;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) y[c] = row[c] * scale * weight[c];
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
