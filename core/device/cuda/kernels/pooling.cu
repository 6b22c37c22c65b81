// Pooling. Each thread computes a few channels of one position: of the output in forward, of the
// input in backward. The backward of pooling by windows adds, in a fixed order, the gradients of
// all windows that contain the position.
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/spread.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

/// Extents of images, windows and output. `positions` is the number of positions that the kernel
/// computes, in all images together.
struct Windows {
  int height, width, out_height, out_width, size, stride, padding;
  std::int64_t positions;
};

template <class Op>
Windows windows(const Op& op, const Tensor& in, const Tensor& out, const Tensor& over) {
  const auto extent = [](const Tensor& of, std::size_t i) {
    return static_cast<int>(of.shape()[i]);
  };
  return {extent(in, 1),
          extent(in, 2),
          extent(out, 1),
          extent(out, 2),
          static_cast<int>(op.size),
          static_cast<int>(op.stride),
          static_cast<int>(op.padding),
          over.shape()[0] * over.shape()[1] * over.shape()[2]};
}

/// Position `index` in images of height x width.
struct Position {
  unsigned image;
  int row, column;

  __device__ __forceinline__ Position(std::int64_t index, int height, int width) {
    const auto number = static_cast<unsigned>(index), line = number / static_cast<unsigned>(width);
    column = static_cast<int>(number % static_cast<unsigned>(width));
    row = static_cast<int>(line % static_cast<unsigned>(height));
    image = line / static_cast<unsigned>(height);
  }
};

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void take_largest(Windows of, Spread at, const T* x,
                                                               T* y, std::uint8_t* where) {
  const std::int64_t index = at.row_of_grid();
  if (!at.works() || index >= of.positions) return;
  const Position out(index, of.out_height, of.out_width);
  const int top = out.row * of.stride - of.padding, left = out.column * of.stride - of.padding;
  const T* image = x + std::int64_t{out.image} * of.height * of.width * at.columns + at.column();
  Floats<n> most = {};
  Pack<std::uint8_t, n> places = {};
  bool first = true;
  for (int r = 0; r < of.size; ++r) {
    if (top + r < 0 || top + r >= of.height) continue;
    for (int s = 0; s < of.size; ++s) {
      if (left + s < 0 || left + s >= of.width) continue;
      const Floats<n> values =
          load_floats<n>(image + (std::int64_t{top + r} * of.width + left + s) * at.columns);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        // A NaN counts as the largest value: it is taken, and stays.
        const bool taken = !(values.at[i] <= most.at[i]) && most.at[i] == most.at[i];
        if (!first && !taken) continue;
        most.at[i] = values.at[i];
        places.at[i] = static_cast<std::uint8_t>(r * of.size + s);
      }
      first = false;
    }
  }
  store_floats<n>(y + index * at.columns + at.column(), most);
  if (where) store<n>(where + index * at.columns + at.column(), places);
}

/// Calls visit(window, place) for each window that contains position `index` of the input: the
/// number of the window among all windows, and the position's place in it, counted row by row.
template <class Visit>
__device__ __forceinline__ void over_windows(const Windows& of, std::int64_t index,
                                             const Visit& visit) {
  const Position in(index, of.height, of.width);
  const int row = in.row + of.padding, column = in.column + of.padding;
  // Along one axis, first(place) is the first window that reaches `place`. last_row and last_column
  // are the last windows that begin at or before `row` and `column`.
  const auto first = [&](int place) {
    return place < of.size ? 0 : (place - of.size) / of.stride + 1;
  };
  const int last_row = min(row / of.stride, of.out_height - 1);
  const int last_column = min(column / of.stride, of.out_width - 1);
  for (int p = first(row); p <= last_row; ++p)
    for (int q = first(column); q <= last_column; ++q)
      visit((std::int64_t{in.image} * of.out_height + p) * of.out_width + q,
            (row - p * of.stride) * of.size + column - q * of.stride);
}

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void give_to_largest(Windows of, Spread at,
                                                                  const T* dy,
                                                                  const std::uint8_t* where,
                                                                  T* dx) {
  const std::int64_t index = at.row_of_grid();
  if (!at.works() || index >= of.positions) return;
  Floats<n> sums = {};
  over_windows(of, index, [&](std::int64_t window, int place) {
    const std::int64_t out = window * at.columns + at.column();
    const auto places = load<n>(where + out);
    const Floats<n> values = load_floats<n>(dy + out);
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (places.at[i] == place) sums.at[i] += values.at[i];
  });
  store_floats<n>(dx + index * at.columns + at.column(), sums);
}

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void take_means(Windows of, Spread at, const T* x,
                                                             T* y) {
  const std::int64_t index = at.row_of_grid();
  if (!at.works() || index >= of.positions) return;
  const Position out(index, of.out_height, of.out_width);
  const int top = out.row * of.stride - of.padding, left = out.column * of.stride - of.padding;
  const T* image = x + std::int64_t{out.image} * of.height * of.width * at.columns + at.column();
  Floats<n> sums = {};
  for (int h = max(top, 0); h < min(top + of.size, of.height); ++h)
    for (int w = max(left, 0); w < min(left + of.size, of.width); ++w) {
      const Floats<n> values =
          load_floats<n>(image + (std::int64_t{h} * of.width + w) * at.columns);
#pragma unroll
      for (int i = 0; i < n; ++i) sums.at[i] += values.at[i];
    }
#pragma unroll
  for (int i = 0; i < n; ++i) sums.at[i] /= static_cast<float>(of.size * of.size);
  store_floats<n>(y + index * at.columns + at.column(), sums);
}

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void give_means(Windows of, Spread at, const T* dy,
                                                             T* dx) {
  const std::int64_t index = at.row_of_grid();
  if (!at.works() || index >= of.positions) return;
  Floats<n> sums = {};
  over_windows(of, index, [&](std::int64_t window, int) {
    const Floats<n> values = load_floats<n>(dy + window * at.columns + at.column());
#pragma unroll
    for (int i = 0; i < n; ++i) sums.at[i] += values.at[i];
  });
#pragma unroll
  for (int i = 0; i < n; ++i) sums.at[i] /= static_cast<float>(of.size * of.size);
  store_floats<n>(dx + index * at.columns + at.column(), sums);
}

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void take_mean(Spread at, const T* x, T* y,
                                                            std::int64_t images,
                                                            std::int64_t positions) {
  const std::int64_t image = at.row_of_grid();
  if (!at.works() || image >= images) return;
  const T* from = x + image * positions * at.columns + at.column();
  Floats<n> sums = {};
#pragma unroll 8
  for (std::int64_t i = 0; i < positions; ++i) {
    const Floats<n> values = load_floats<n>(from + i * at.columns);
#pragma unroll
    for (int e = 0; e < n; ++e) sums.at[e] += values.at[e];
  }
#pragma unroll
  for (int e = 0; e < n; ++e) sums.at[e] /= static_cast<float>(positions);
  store_floats<n>(y + image * at.columns + at.column(), sums);
}

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void give_mean(Spread at, const T* dy, T* dx,
                                                            std::int64_t images,
                                                            std::int64_t positions) {
  const std::int64_t index = at.row_of_grid();
  if (!at.works() || index >= images * positions) return;
  Floats<n> values = load_floats<n>(dy + index / positions * at.columns + at.column());
#pragma unroll
  for (int e = 0; e < n; ++e) values.at[e] /= static_cast<float>(positions);
  store_floats<n>(dx + index * at.columns + at.column(), values);
}

/// Calls run(n, spread of the channels), where `n` is a std::integral_constant<int>: the number of
/// channels that one memory access reads or writes.
template <class T, class Run, class... Operands>
void by_channels(std::int64_t channels, const Run& run, const Operands*... operands) {
  constexpr int n = in_16_bytes<T>;
  if (channels % n == 0 && (is_aligned(operands, n) && ...))
    run(std::integral_constant<int, n>(), Spread::over(channels, n));
  else
    run(std::integral_constant<int, 1>(), Spread::over(channels, 1));
}

}  // namespace

void max_pool_forward(const Context& context, const MaxPoolForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) {
    const Windows of = windows(op, op.x, op.y, op.y);
    const T* x = data<T>(op.x);
    T* y = data<T>(op.y);
    auto* where = op.where.data<std::uint8_t>();
    const auto run = [&](auto n, const Spread& at) {
      launch(context, "max_pool_forward", take_largest<T, n()>, at.blocks(of.positions),
             spread_threads, of, at, x, y, where);
    };
    by_channels<T>(op.x.shape()[3], run, x, y, where);
  });
}

void max_pool_backward(const Context& context, const MaxPoolBackward& op) {
  with_type(op.dx.dtype(), [&]<class T>(std::type_identity<T>) {
    const Windows of = windows(op, op.dx, op.dy, op.dx);
    const T* dy = data<T>(op.dy);
    T* dx = data<T>(op.dx);
    const auto* where = op.where.data<std::uint8_t>();
    const auto run = [&](auto n, const Spread& at) {
      launch(context, "max_pool_backward", give_to_largest<T, n()>, at.blocks(of.positions),
             spread_threads, of, at, dy, where, dx);
    };
    by_channels<T>(op.dx.shape()[3], run, dy, where, dx);
  });
}

void average_windows_forward(const Context& context, const AverageWindowsForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) {
    const Windows of = windows(op, op.x, op.y, op.y);
    const T* x = data<T>(op.x);
    T* y = data<T>(op.y);
    const auto run = [&](auto n, const Spread& at) {
      launch(context, "average_windows_forward", take_means<T, n()>, at.blocks(of.positions),
             spread_threads, of, at, x, y);
    };
    by_channels<T>(op.x.shape()[3], run, x, y);
  });
}

void average_windows_backward(const Context& context, const AverageWindowsBackward& op) {
  with_type(op.dx.dtype(), [&]<class T>(std::type_identity<T>) {
    const Windows of = windows(op, op.dx, op.dy, op.dx);
    const T* dy = data<T>(op.dy);
    T* dx = data<T>(op.dx);
    const auto run = [&](auto n, const Spread& at) {
      launch(context, "average_windows_backward", give_means<T, n()>, at.blocks(of.positions),
             spread_threads, of, at, dy, dx);
    };
    by_channels<T>(op.dx.shape()[3], run, dy, dx);
  });
}

void average_pool_forward(const Context& context, const AveragePoolForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) {
    const T* x = data<T>(op.x);
    T* y = data<T>(op.y);
    const std::int64_t images = op.x.shape()[0], positions = op.x.shape()[1] * op.x.shape()[2];
    const auto run = [&](auto n, const Spread& at) {
      launch(context, "average_pool_forward", take_mean<T, n()>, at.blocks(images), spread_threads,
             at, x, y, images, positions);
    };
    by_channels<T>(op.x.shape()[3], run, x, y);
  });
}

void average_pool_backward(const Context& context, const AveragePoolBackward& op) {
  with_type(op.dx.dtype(), [&]<class T>(std::type_identity<T>) {
    const T* dy = data<T>(op.dy);
    T* dx = data<T>(op.dx);
    const std::int64_t images = op.dx.shape()[0], positions = op.dx.shape()[1] * op.dx.shape()[2];
    const auto run = [&](auto n, const Spread& at) {
      launch(context, "average_pool_backward", give_mean<T, n()>, at.blocks(images * positions),
             spread_threads, at, dy, dx, images, positions);
    };
    by_channels<T>(op.dx.shape()[3], run, dy, dx);
  });
}

}  // namespace ringside::cuda
