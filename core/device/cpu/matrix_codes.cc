// The operations of codes on matrices (core/device/ops/codes.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t lanes = 16;
constexpr double dependent = 1e-6;  // what is left of a column that depends on others, to its norm
constexpr double least_of_unit = 1e-3;  // what is left of a unit vector that does not

/// The dot product of two columns, in an order that vector registers of any width keep.
double dot(const float* a, const float* b, std::int64_t count) {
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t l = 0; l < lanes; ++l)
      sums[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  for (std::int64_t l = 0; i < count; ++i, ++l)
    sums[l] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double sum = 0;
  for (const double one : sums) sum += one;
  return sum;
}

}  // namespace

void matrix_product(const Context& context, const MatrixProduct& op) {
  const std::int64_t m = op.out.shape()[0], n = op.out.shape()[1];
  gemm(context.threads, {.transpose_a = op.transpose_a,
                         .transpose_b = op.transpose_b,
                         .m = m,
                         .n = n,
                         .k = op.a.shape()[op.transpose_a ? 0 : 1],
                         .a = op.a.data<float>(),
                         .lda = op.a.shape()[1],
                         .b = op.b.data<float>(),
                         .ldb = op.b.shape()[1],
                         .c = op.out.data<float>(),
                         .ldc = n});
}

void orthonormalise(const Context&, const Orthonormalise& op) {
  const std::int64_t rows = op.matrix.shape()[0], columns = op.matrix.shape()[1];
  float* matrix = op.matrix.data<float>();
  std::vector<float> all(static_cast<std::size_t>(rows * columns));  // column after column
  const auto column = [&](std::int64_t c) { return all.data() + c * rows; };
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) column(c)[r] = matrix[r * columns + c];
  // Leaves of column c what does not depend on those before it. Returns its norm.
  const auto project = [&](std::int64_t c) {
    for (int time = 0; time < 2; ++time)
      for (std::int64_t other = 0; other < c; ++other) {
        const auto share = static_cast<float>(dot(column(c), column(other), rows));
        for (std::int64_t r = 0; r < rows; ++r) column(c)[r] -= share * column(other)[r];
      }
    return std::sqrt(dot(column(c), column(c), rows));
  };
  for (std::int64_t c = 0; c < columns; ++c) {
    float* own = column(c);
    const double before = std::sqrt(dot(own, own, rows));
    double norm = project(c);
    for (std::int64_t unit = 0; norm <= dependent * before && unit < rows; ++unit) {
      std::fill(own, own + rows, 0.0F);
      own[unit] = 1;
      norm = project(c);
      if (norm > least_of_unit) break;
      norm = 0;
    }
    const auto factor = static_cast<float>(1 / norm);
    for (std::int64_t r = 0; r < rows; ++r) own[r] *= factor;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) matrix[r * columns + c] = column(c)[r];
}

}  // namespace ringside::cpu
