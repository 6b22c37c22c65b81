#include "core/device/cuda/kernels/column_sums.h"

#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int part_rows = 8;    // rows that a block of sum_rows() reads at a time
constexpr int final_rows = 32;  // threads that add up the parts of one column

/// Each thread sums n columns. Block (x, y) takes every gridDim.y-th group of part_rows rows, from
/// group y on, and writes row y of `parts`.
template <class T, int n>
__global__ __launch_bounds__(warp* part_rows) void sum_rows(const T* in, std::int64_t rows,
                                                            std::int64_t columns, float* parts) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * warp + threadIdx.x) * n;
  float sums[n] = {};
  if (column < columns) {
    const std::int64_t stride = std::int64_t{gridDim.y} * part_rows;
#pragma unroll 4
    for (std::int64_t row = std::int64_t{blockIdx.y} * part_rows + threadIdx.y; row < rows;
         row += stride) {
      const Floats<n> values = load_floats<n>(in + row * columns + column);
#pragma unroll
      for (int i = 0; i < n; ++i) sums[i] += values.at[i];
    }
  }
  sum_over_y<part_rows>(sums);
  if (threadIdx.y == 0 && column < columns)
#pragma unroll
    for (int i = 0; i < n; ++i) parts[blockIdx.y * columns + column + i] = sums[i];
}

template <class T>
__global__ __launch_bounds__(warp* final_rows) void sum_of_parts(const float* parts,
                                                                 std::int64_t count, T* first,
                                                                 std::int64_t first_columns,
                                                                 T* second, std::int64_t columns) {
  const std::int64_t column = std::int64_t{blockIdx.x} * warp + threadIdx.x;
  float sum[1] = {};
  if (column < columns)
#pragma unroll 8
    for (std::int64_t part = threadIdx.y; part < count; part += final_rows)
      sum[0] += parts[part * columns + column];
  sum_over_y<final_rows>(sum);
  if (threadIdx.y != 0 || column >= columns) return;
  store_float(column < first_columns ? first + column : second + (column - first_columns), sum[0]);
}

template <class T>
void sum_parts_of(const Context& context, const Tensor& parts, const Tensor& first,
                  const Tensor& second) {
  const std::int64_t columns = parts.shape()[1];
  launch(context, "sum_parts", sum_of_parts<T>, blocks_for(columns, warp), dim3(warp, final_rows),
         parts.data<float>(), parts.shape()[0], data<T>(first), first.count(), data<T>(second),
         columns);
}

template <class T, int n>
void sum_columns_by(const Context& context, const Tensor& in, const Tensor& out) {
  const std::int64_t rows = in.shape()[0], columns = in.shape()[1];
  const unsigned across = blocks_for(columns, warp * n);
  // Enough blocks to occupy every multiprocessor, but not so many that a part has only a few rows.
  const std::int64_t most = std::max<std::int64_t>(1, 8 * context.multiprocessors / across);
  const unsigned count = std::max(1u, blocks_for(rows, 8 * part_rows, most));
  const Tensor parts = context.device.tensor({count, columns}, MemoryKind::workspace);
  launch(context, "sum_columns", sum_rows<T, n>, dim3(across, count), dim3(warp, part_rows),
         data<T>(in), rows, columns, parts.data<float>());
  sum_parts_of<T>(context, parts, out, {});
}

template <class T>
void sum_columns_of(const Context& context, const Tensor& in, const Tensor& out) {
  if (has_aligned_rows(data<T>(in), in.shape()[1]))
    sum_columns_by<T, in_16_bytes<T>>(context, in, out);
  else
    sum_columns_by<T, 1>(context, in, out);
}

}  // namespace

void sum_columns(const Context& context, const Tensor& in, const Tensor& out) {
  with_type(in.dtype(),
            [&]<class T>(std::type_identity<T>) { sum_columns_of<T>(context, in, out); });
}

void sum_parts(const Context& context, const Tensor& parts, const Tensor& first,
               const Tensor& second) {
  with_type(first.dtype(), [&]<class T>(std::type_identity<T>) {
    sum_parts_of<T>(context, parts, first, second);
  });
}

}  // namespace ringside::cuda
