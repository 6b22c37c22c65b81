// Orthonormalise (core/device/ops/codes.h). Matrices have few columns, so one block serves.
#include <cmath>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/runtime/launch.h"

namespace ringside::cuda {
namespace {

constexpr int threads = 1024;
constexpr double dependent = 1e-6;  // what is left of a column that depends on others, to its norm
constexpr double least_of_unit = 1e-3;  // what is left of a unit vector that does not

__global__ __launch_bounds__(threads) void orthonormalise_columns(float* matrix, std::int64_t rows,
                                                                  std::int64_t columns) {
  int slot = 0;
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t r = threadIdx.x; r < rows; r += threads)
      sum += static_cast<double>(matrix[r * columns + a]) *
             static_cast<double>(matrix[r * columns + b]);
    slot = 1 - slot;
    return block_sum(sum, slot);
  };
  // Leaves of column c what does not depend on those before it. Returns its norm.
  const auto project = [&](std::int64_t c) {
    for (int time = 0; time < 2; ++time)
      for (std::int64_t other = 0; other < c; ++other) {
        const auto share = static_cast<float>(dot(c, other));
        for (std::int64_t r = threadIdx.x; r < rows; r += threads)
          matrix[r * columns + c] -= share * matrix[r * columns + other];
      }
    return sqrt(dot(c, c));
  };
  for (std::int64_t c = 0; c < columns; ++c) {
    const double before = sqrt(dot(c, c));
    double norm = project(c);
    for (std::int64_t unit = 0; norm <= dependent * before && unit < rows; ++unit) {
      for (std::int64_t r = threadIdx.x; r < rows; r += threads)
        matrix[r * columns + c] = r == unit ? 1 : 0;
      norm = project(c);
      if (norm > least_of_unit) break;
      norm = 0;
    }
    const auto factor = static_cast<float>(1 / norm);
    for (std::int64_t r = threadIdx.x; r < rows; r += threads) matrix[r * columns + c] *= factor;
  }
}

}  // namespace

void orthonormalise(const Context& context, const Orthonormalise& op) {
  launch(context, "orthonormalise", orthonormalise_columns, 1, threads, op.matrix.data<float>(),
         op.matrix.shape()[0], op.matrix.shape()[1]);
}

}  // namespace ringside::cuda
