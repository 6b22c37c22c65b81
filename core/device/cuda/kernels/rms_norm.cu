// RMS norm (norm_rows.cuh).
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/norm_rows.cuh"

namespace ringside::cuda {
namespace {

template <class T>
struct Forward {
  const T *x, *residual, *weight;
  T *sum, *y;  // `sum` may be null
  float* rstd;
  std::int64_t rows, width;
  float epsilon;
};

template <class T, int packs, bool narrow>
__global__ __launch_bounds__(norm_threads) void forward_kept(Forward<T> op) {
  using Row = Team<T, narrow>;
  constexpr int n = Row::n;
  const std::int64_t row = Row::row(), begin = row * op.width;
  if (row >= op.rows) return;
  Floats<n> values[packs] = {};
  load_row<Row>(values, op.x, op.residual, begin, op.width);
  float squares = 0;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (Row::column(p) >= op.width) continue;
    if (op.sum) store_floats<n>(op.sum + begin + Row::column(p), values[p]);
#pragma unroll
    for (int i = 0; i < n; ++i) squares += values[p].at[i] * values[p].at[i];
  }
  const float rstd = rsqrtf(Row::sum(squares, 0) / static_cast<float>(op.width) + op.epsilon);
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (Row::column(p) >= op.width) continue;
    const Floats<n> weight = load_floats<n>(op.weight + Row::column(p));
#pragma unroll
    for (int i = 0; i < n; ++i) values[p].at[i] *= rstd * weight.at[i];
    store_floats<n>(op.y + begin + Row::column(p), values[p]);
  }
  if (Row::member() == 0) op.rstd[row] = rstd;
}

/// For any width and alignment: one block for each row, which it reads twice.
template <class T>
__global__ __launch_bounds__(norm_threads) void forward_reread(Forward<T> op) {
  const std::int64_t row = blockIdx.x, begin = row * op.width;
  // A thread reads the same elements each time, so `sum` may lie in the memory of x or of the
  // residual.
  const auto value = [=](std::int64_t c) {
    return load_float(op.x + begin + c) + (op.residual ? load_float(op.residual + begin + c) : 0);
  };
  float squares = 0;
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads)
    squares += value(c) * value(c);
  const float rstd = rsqrtf(block_sum(squares, 0) / static_cast<float>(op.width) + op.epsilon);
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
    const float here = value(c);
    if (op.sum) store_float(op.sum + begin + c, here);
    store_float(op.y + begin + c, here * (rstd * load_float(op.weight + c)));
  }
  if (threadIdx.x == 0) op.rstd[row] = rstd;
}

template <class T>
struct ForwardKernels {
  template <int packs, bool narrow>
  static auto kept() {
    return forward_kept<T, packs, narrow>;
  }
  static auto reread() { return forward_reread<T>; }
};

template <class T>
void forward(const Context& context, const RmsNormForward& op) {
  const Forward<T> with{.x = data<T>(op.x),
                        .residual = data<T>(op.residual),
                        .weight = data<T>(op.weight),
                        .sum = data<T>(op.sum),
                        .y = data<T>(op.y),
                        .rstd = op.rstd.data<float>(),
                        .rows = op.x.shape()[0],
                        .width = op.x.shape()[1],
                        .epsilon = op.epsilon};
  const bool aligned =
      have_aligned_rows(with.width, with.x, with.residual, with.weight, with.sum, with.y);
  launch_norm_forward<T, ForwardKernels<T>>(context, "rms_norm_forward", with, aligned);
}

template <class T>
struct Backward {
  const T *dy, *x, *weight;
  const float* rstd;
  const T* dresidual;
  T* dx;
  float* parts;  // [blocks, width]: each block's part of dweight
  std::int64_t rows, width;
};

/// Each thread has `packs` ranges of columns and keeps their sums over the rows of its block. It
/// loads `at_once` rows together, so that enough memory accesses are in flight and one barrier
/// serves all of these rows.
template <class T, int packs, int at_once, int most_threads>
__global__ __launch_bounds__(most_threads) void backward_kept(Backward<T> op) {
  constexpr int n = in_16_bytes<T>;
  const auto column = [](int p) { return (std::int64_t{p} * blockDim.x + threadIdx.x) * n; };
  Pack<T, n> weight[packs] = {};
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < op.width) weight[p] = load<n>(op.weight + column(p));
  Floats<n> dweight[packs] = {};
  int slot = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * at_once;
  for (std::int64_t first = std::int64_t{blockIdx.x} * at_once; first < op.rows; first += stride) {
    Pack<T, n> dy[at_once][packs] = {}, x[at_once][packs] = {}, residual[at_once][packs] = {};
    float rstd[at_once] = {};
    // For each row the sum of the scaled gradient times the normalised values.
    float sums[at_once] = {};
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (first + r >= op.rows) continue;
      rstd[r] = op.rstd[first + r];
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if (column(p) >= op.width) continue;
        const std::int64_t at = (first + r) * op.width + column(p);
        dy[r][p] = load<n>(op.dy + at);
        x[r][p] = load<n>(op.x + at);
        if (op.dresidual) residual[r][p] = load<n>(op.dresidual + at);
      }
    }
#pragma unroll
    for (int r = 0; r < at_once; ++r)
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if (column(p) >= op.width) continue;
        const Floats<n> g = unpack(dy[r][p]), values = unpack(x[r][p]), w = unpack(weight[p]);
#pragma unroll
        for (int i = 0; i < n; ++i) {
          const float along = g.at[i] * (values.at[i] * rstd[r]);
          sums[r] += along * w.at[i];
          dweight[p].at[i] += along;
        }
      }
    block_sum(sums, slot);
    slot ^= 1;
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (first + r >= op.rows) continue;
      const float mean = sums[r] / static_cast<float>(op.width);
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if (column(p) >= op.width) continue;
        const Floats<n> g = unpack(dy[r][p]), values = unpack(x[r][p]), w = unpack(weight[p]);
        Floats<n> dx = unpack(residual[r][p]);
#pragma unroll
        for (int i = 0; i < n; ++i)
          dx.at[i] += (g.at[i] * w.at[i] - values.at[i] * rstd[r] * mean) * rstd[r];
        store_floats<n>(op.dx + (first + r) * op.width + column(p), dx);
      }
    }
  }
  float* parts = op.parts + std::int64_t{blockIdx.x} * op.width;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (column(p) >= op.width) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) parts[column(p) + i] = dweight[p].at[i];
  }
}

/// For any width and alignment: the sums over rows are kept in memory. Only one thread adds to each
/// of them.
template <class T>
__global__ __launch_bounds__(norm_threads) void backward_reread(Backward<T> op) {
  float* dweight = op.parts + std::int64_t{blockIdx.x} * op.width;
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) dweight[c] = 0;
  int slot = 0;
  for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
    const std::int64_t begin = row * op.width;
    const float rstd = op.rstd[row];
    float sum = 0;
    for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
      const float along =
          load_float(op.dy + begin + c) * (load_float(op.x + begin + c) * rstd);
      sum += along * load_float(op.weight + c);
      dweight[c] += along;
    }
    const float mean = block_sum(sum, slot) / static_cast<float>(op.width);
    slot ^= 1;
    for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
      const float scaled = load_float(op.dy + begin + c) * load_float(op.weight + c);
      const float residual = op.dresidual ? load_float(op.dresidual + begin + c) : 0;
      const float normal = load_float(op.x + begin + c) * rstd;
      store_float(op.dx + begin + c, residual + (scaled - normal * mean) * rstd);
    }
  }
}

template <class T>
struct BackwardKernels {
  template <int packs, int at_once, int most_threads>
  static auto kept() {
    return backward_kept<T, packs, at_once, most_threads>;
  }
  static auto reread() { return backward_reread<T>; }
};

template <class T>
void backward(const Context& context, const RmsNormBackward& op) {
  const Backward<T> with{.dy = data<T>(op.dy),
                         .x = data<T>(op.x),
                         .weight = data<T>(op.weight),
                         .rstd = op.rstd.data<float>(),
                         .dresidual = data<T>(op.dresidual),
                         .dx = data<T>(op.dx),
                         .parts = nullptr,
                         .rows = op.x.shape()[0],
                         .width = op.x.shape()[1]};
  const bool aligned =
      have_aligned_rows(with.width, with.dy, with.x, with.weight, with.dresidual, with.dx);
  launch_norm_backward<T, BackwardKernels<T>>(context, "rms_norm_backward", with, aligned,
                                              op.dweight, {});
}

}  // namespace

void rms_norm_forward(const Context& context, const RmsNormForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { forward<T>(context, op); });
}

void rms_norm_backward(const Context& context, const RmsNormBackward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { backward<T>(context, op); });
}

}  // namespace ringside::cuda
