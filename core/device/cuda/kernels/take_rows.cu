// TakeRows. Forward copies rows of x to y. In backward a row of dx is the sum of the rows of dy, in
// order, that belong to the copies of that row of x.
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int threads = 128;

/// x and dx [B, T, C], y and dy [B * P, C].
struct Extents {
  std::int64_t rows, taken, width;  // T, P, C
};

/// Each block copies one row of y.
template <class T, int n>
__global__ __launch_bounds__(threads) void take(const T* x, const std::int32_t* positions, T* y,
                                                Extents of) {
  const std::int64_t row = blockIdx.x, sample = row / of.taken;
  const T* from = x + (sample * of.rows + positions[row]) * of.width;
  for (std::int64_t c = std::int64_t{threadIdx.x} * n; c < of.width; c += threads * n)
    store<n>(y + row * of.width + c, load<n>(from + c));
}

/// Each block computes one row of dx.
template <class T, int n>
__global__ __launch_bounds__(threads) void put(const T* dy, const std::int32_t* positions, T* dx,
                                               Extents of) {
  const std::int64_t row = blockIdx.x, sample = row / of.rows;
  const int place = static_cast<int>(row % of.rows);
  const std::int32_t* places = positions + sample * of.taken;
  const T* from = dy + sample * of.taken * of.width;
  for (std::int64_t c = std::int64_t{threadIdx.x} * n; c < of.width; c += threads * n) {
    Floats<n> sums = {};
    for (std::int64_t p = 0; p < of.taken; ++p) {
      if (places[p] != place) continue;
      const Floats<n> values = load_floats<n>(from + p * of.width + c);
#pragma unroll
      for (int e = 0; e < n; ++e) sums.at[e] += values.at[e];
    }
    store_floats<n>(dx + row * of.width + c, sums);
  }
}

Extents extents(const Tensor& whole, const Tensor& positions) {
  return {whole.shape()[1], positions.shape()[1], whole.shape()[2]};
}

template <class T>
void forward(const Context& context, const TakeRowsForward& op) {
  constexpr int n = in_16_bytes<T>;
  const Extents of = extents(op.x, op.positions);
  const bool aligned =
      has_aligned_rows(data<T>(op.x), of.width) && has_aligned_rows(data<T>(op.y), of.width);
  launch(context, "take_rows_forward", aligned ? take<T, n> : take<T, 1>,
         blocks_for(op.positions.count(), 1), threads, data<T>(op.x),
         op.positions.data<std::int32_t>(), data<T>(op.y), of);
}

template <class T>
void backward(const Context& context, const TakeRowsBackward& op) {
  constexpr int n = in_16_bytes<T>;
  const Extents of = extents(op.dx, op.positions);
  const bool aligned =
      has_aligned_rows(data<T>(op.dy), of.width) && has_aligned_rows(data<T>(op.dx), of.width);
  launch(context, "take_rows_backward", aligned ? put<T, n> : put<T, 1>,
         blocks_for(op.dx.shape()[0] * of.rows, 1), threads, data<T>(op.dy),
         op.positions.data<std::int32_t>(), data<T>(op.dx), of);
}

}  // namespace

void take_rows_forward(const Context& context, const TakeRowsForward& op) {
  with_type(op.y.dtype(), [&]<class T>(std::type_identity<T>) { forward<T>(context, op); });
}

void take_rows_backward(const Context& context, const TakeRowsBackward& op) {
  with_type(op.dx.dtype(), [&]<class T>(std::type_identity<T>) { backward<T>(context, op); });
}

}  // namespace ringside::cuda
