// Layer norm (norm_rows.cuh).
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/norm_rows.cuh"

namespace ringside::cuda {
namespace {

template <class T>
struct Forward {
  const T *x, *residual, *weight, *bias;
  T *sum, *y;
  float *mean, *rstd;
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
  float sum = 0;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (Row::column(p) >= op.width) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) sum += values[p].at[i];
  }
  const float mean = Row::sum(sum, 0) / static_cast<float>(op.width);

  float squares = 0;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (Row::column(p) >= op.width) continue;
    if (op.sum) store_floats<n>(op.sum + begin + Row::column(p), values[p]);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float centred = values[p].at[i] - mean;
      squares += centred * centred;
    }
  }
  const float rstd = rsqrtf(Row::sum(squares, 1) / static_cast<float>(op.width) + op.epsilon);

#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (Row::column(p) >= op.width) continue;
    const Floats<n> weight = load_floats<n>(op.weight + Row::column(p));
    const Floats<n> bias = load_floats<n>(op.bias + Row::column(p));
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[p].at[i] = (values[p].at[i] - mean) * rstd * weight.at[i] + bias.at[i];
    store_floats<n>(op.y + begin + Row::column(p), values[p]);
  }
  if (Row::member() == 0) {
    op.mean[row] = mean;
    op.rstd[row] = rstd;
  }
}

/// For any width and alignment: one block for each row, which it reads three times.
template <class T>
__global__ __launch_bounds__(norm_threads) void forward_reread(Forward<T> op) {
  const std::int64_t row = blockIdx.x, begin = row * op.width;
  // A thread reads the same elements each time, so `sum` may lie in the memory of x or of the
  // residual.
  const auto value = [&](std::int64_t c) {
    return load_float(op.x + begin + c) + (op.residual ? load_float(op.residual + begin + c) : 0);
  };
  float sum = 0, squares = 0;
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) sum += value(c);
  const float mean = block_sum(sum, 0) / static_cast<float>(op.width);
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
    const float centred = value(c) - mean;
    squares += centred * centred;
  }
  const float rstd = rsqrtf(block_sum(squares, 1) / static_cast<float>(op.width) + op.epsilon);
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
    const float here = value(c);
    if (op.sum) store_float(op.sum + begin + c, here);
    store_float(op.y + begin + c,
                (here - mean) * rstd * load_float(op.weight + c) + load_float(op.bias + c));
  }
  if (threadIdx.x == 0) {
    op.mean[row] = mean;
    op.rstd[row] = rstd;
  }
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
void forward(const Context& context, const LayerNormForward& op) {
  const Forward<T> with{.x = data<T>(op.x),
                        .residual = data<T>(op.residual),
                        .weight = data<T>(op.weight),
                        .bias = data<T>(op.bias),
                        .sum = data<T>(op.sum),
                        .y = data<T>(op.y),
                        .mean = op.mean.data<float>(),
                        .rstd = op.rstd.data<float>(),
                        .rows = op.x.shape()[0],
                        .width = op.x.shape()[1],
                        .epsilon = op.epsilon};
  const bool aligned = have_aligned_rows(with.width, with.x, with.residual, with.weight, with.bias,
                                         with.sum, with.y);
  launch_norm_forward<T, ForwardKernels<T>>(context, "layer_norm_forward", with, aligned);
}

template <class T>
struct Backward {
  const T *dy, *x, *weight;
  const float *mean, *rstd;
  const T* dresidual;
  T* dx;
  float* parts;  // [blocks, 2, width]: each block's part of dweight and of dbias
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
  Floats<n> dweight[packs] = {}, dbias[packs] = {};
  int slot = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * at_once;
  for (std::int64_t first = std::int64_t{blockIdx.x} * at_once; first < op.rows; first += stride) {
    Pack<T, n> dy[at_once][packs] = {}, x[at_once][packs] = {};
    float mean[at_once] = {}, rstd[at_once] = {};
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (first + r >= op.rows) continue;
      mean[r] = op.mean[first + r];
      rstd[r] = op.rstd[first + r];
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if (column(p) >= op.width) continue;
        dy[r][p] = load<n>(op.dy + (first + r) * op.width + column(p));
        x[r][p] = load<n>(op.x + (first + r) * op.width + column(p));
      }
    }
    // For each row two sums: of the scaled gradient, and of the scaled gradient times the
    // normalised values.
    float sums[2 * at_once] = {};
#pragma unroll
    for (int r = 0; r < at_once; ++r)
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if (column(p) >= op.width) continue;
        const Floats<n> g = unpack(dy[r][p]), values = unpack(x[r][p]), w = unpack(weight[p]);
#pragma unroll
        for (int i = 0; i < n; ++i) {
          const float normal = (values.at[i] - mean[r]) * rstd[r];
          const float scaled = g.at[i] * w.at[i];
          sums[2 * r] += scaled;
          sums[2 * r + 1] += scaled * normal;
          dweight[p].at[i] += g.at[i] * normal;
          dbias[p].at[i] += g.at[i];
        }
      }
    // These loads run while block_sum() adds.
    Pack<T, n> residual[at_once][packs] = {};
#pragma unroll
    for (int r = 0; r < at_once; ++r)
#pragma unroll
      for (int p = 0; p < packs; ++p)
        if (op.dresidual && first + r < op.rows && column(p) < op.width)
          residual[r][p] = load<n>(op.dresidual + (first + r) * op.width + column(p));
    block_sum(sums, slot);
    slot ^= 1;
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (first + r >= op.rows) continue;
      const float ones = sums[2 * r] / static_cast<float>(op.width);
      const float along = sums[2 * r + 1] / static_cast<float>(op.width);
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if (column(p) >= op.width) continue;
        const Floats<n> g = unpack(dy[r][p]), values = unpack(x[r][p]), w = unpack(weight[p]);
        Floats<n> dx = unpack(residual[r][p]);
#pragma unroll
        for (int i = 0; i < n; ++i) {
          const float normal = (values.at[i] - mean[r]) * rstd[r];
          dx.at[i] += (g.at[i] * w.at[i] - ones - normal * along) * rstd[r];
        }
        store_floats<n>(op.dx + (first + r) * op.width + column(p), dx);
      }
    }
  }
  float* parts = op.parts + std::int64_t{blockIdx.x} * 2 * op.width;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (column(p) >= op.width) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      parts[column(p) + i] = dweight[p].at[i];
      parts[op.width + column(p) + i] = dbias[p].at[i];
    }
  }
}

/// For any width and alignment: the sums over rows are kept in memory. Only one thread adds to each
/// of them.
template <class T>
__global__ __launch_bounds__(norm_threads) void backward_reread(Backward<T> op) {
  float* dweight = op.parts + std::int64_t{blockIdx.x} * 2 * op.width;
  float* dbias = dweight + op.width;
  for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) dweight[c] = dbias[c] = 0;
  int slot = 0;
  for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
    const std::int64_t begin = row * op.width;
    const float mean = op.mean[row], rstd = op.rstd[row];
    float sums[2] = {};
    for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
      const float g = load_float(op.dy + begin + c);
      const float normal = (load_float(op.x + begin + c) - mean) * rstd;
      const float scaled = g * load_float(op.weight + c);
      sums[0] += scaled;
      sums[1] += scaled * normal;
      dweight[c] += g * normal;
      dbias[c] += g;
    }
    block_sum(sums, slot);
    slot ^= 1;
    const float ones = sums[0] / static_cast<float>(op.width);
    const float along = sums[1] / static_cast<float>(op.width);
    for (std::int64_t c = threadIdx.x; c < op.width; c += norm_threads) {
      const float normal = (load_float(op.x + begin + c) - mean) * rstd;
      const float scaled = load_float(op.dy + begin + c) * load_float(op.weight + c);
      const float residual = op.dresidual ? load_float(op.dresidual + begin + c) : 0;
      store_float(op.dx + begin + c, residual + (scaled - ones - normal * along) * rstd);
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
void backward(const Context& context, const LayerNormBackward& op) {
  const Backward<T> with{.dy = data<T>(op.dy),
                   .x = data<T>(op.x),
                   .weight = data<T>(op.weight),
                   .mean = op.mean.data<float>(),
                   .rstd = op.rstd.data<float>(),
                   .dresidual = data<T>(op.dresidual),
                   .dx = data<T>(op.dx),
                   .parts = nullptr,
                   .rows = op.x.shape()[0],
                   .width = op.x.shape()[1]};
  const bool aligned = have_aligned_rows(with.width, with.dy, with.x, with.weight, with.dresidual,
                                         with.dx);
  launch_norm_backward<T, BackwardKernels<T>>(context, "layer_norm_backward", with, aligned,
                                              op.dweight, op.dbias);
}

}  // namespace

void layer_norm_forward(const Context& context, const LayerNormForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { forward<T>(context, op); });
}

void layer_norm_backward(const Context& context, const LayerNormBackward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { backward<T>(context, op); });
}

}  // namespace ringside::cuda
