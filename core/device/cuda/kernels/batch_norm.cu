// Batch norm. Sums over rows are computed in two steps: each block sums a part of the rows, then
// the sums of the parts are added. The number of parts depends on the device and on the shape,
// dtype and alignment of the operands alone, and so do the bits of the result.
#include "core/device/cuda/kernels/column_sums.h"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/spread.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

// The number of rows that a thread loads at once: `of_one` if it reads one operand, `of_many` of
// each operand if it reads several. The number of registers limits both.
constexpr int of_one = 4, of_many = 2;
constexpr int final_rows = 8;  // threads that share the parts of a channel
constexpr int final_columns = 32;

/// Moments of some rows of a channel: the number of rows, their mean, and the sum of squared
/// deviations from the mean.
struct Moments {
  float count, mean, squares;

  /// Adds one value. `share` is 1 / (number of values including this one).
  __device__ __forceinline__ void add(float value, float share) {
    count += 1;
    const float departs = value - mean;
    mean += departs * share;
    squares += departs * (value - mean);
  }
  /// Adds the moments of other rows (Chan, Golub and LeVeque 1979).
  __device__ __forceinline__ void merge(const Moments& more) {
    const float total = count + more.count;
    if (more.count == 0) return;
    const float share = more.count / total, departs = more.mean - mean;
    mean += departs * share;
    squares += more.squares + departs * departs * (count * share);
    count = total;
  }
};

/// The rows [begin, end) of part number `part` of `parts`. Block x of the grid sums part x.
struct Part {
  std::int64_t begin, end;

  __device__ __forceinline__ static Part of(std::int64_t rows, std::int64_t part,
                                            std::int64_t parts) {
    return {rows * part / parts, rows * (part + 1) / parts};
  }
};

/// Calls read(row) for `at_once` rows, then use(row, what was read) for each of them, until all
/// rows are done.
template <int at_once, class Read, class Use>
__device__ __forceinline__ void over_rows(std::int64_t first, std::int64_t end, std::int64_t stride,
                                          const Read& read, const Use& use) {
  for (std::int64_t row = first; row < end; row += stride * at_once) {
    decltype(read(row)) values[at_once] = {};
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (row + i * stride < end) values[i] = read(row + i * stride);
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (row + i * stride < end) use(row + i * stride, values[i]);
  }
}

/// Writes the mean and the sum of squared deviations of each part to `parts` [parts, 2, C].
template <class T, int n>
__global__ __launch_bounds__(spread_threads) void part_moments(const T* x, std::int64_t rows,
                                                               Spread at, float* parts) {
  __shared__ float means[n][spread_threads], squares[n][spread_threads], counts[spread_threads];
  const std::int64_t column = at.column();
  const Part part = Part::of(rows, blockIdx.x, gridDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  Moments mine[n] = {};
  if (at.works())
    over_rows<of_one>(
        part.begin + at.row(), part.end, at.down,
        [&](std::int64_t row) { return load<n>(x + row * at.columns + column); },
        [&](std::int64_t, const Pack<T, n>& pack) {
          const Floats<n> values = unpack(pack);
          const float share = 1 / (mine[0].count + 1);
#pragma unroll
          for (int i = 0; i < n; ++i) mine[i].add(values.at[i], share);
        });
  // Merges, in pairs, the moments that the block's rows of threads have computed.
  for (int span = 1; span < at.down; span *= 2) {
    const bool gives = at.row() % (2 * span) == span;
    const bool takes = at.row() % (2 * span) == 0 && at.row() + span < at.down;
    if (gives) {
      counts[thread] = mine[0].count;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        means[i][thread] = mine[i].mean;
        squares[i][thread] = mine[i].squares;
      }
    }
    __syncthreads();
    if (takes) {
      const int other = thread + span * at.across;
#pragma unroll
      for (int i = 0; i < n; ++i)
        mine[i].merge({counts[other], means[i][other], squares[i][other]});
    }
    __syncthreads();
  }
  if (at.row() != 0 || column >= at.columns) return;
  float* out = parts + std::int64_t{blockIdx.x} * 2 * at.columns + column;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    out[i] = mine[i].mean;
    out[at.columns + i] = mine[i].squares;
  }
}

__global__ __launch_bounds__(final_columns* final_rows) void all_moments(
    const float* parts, std::int64_t count, std::int64_t rows, std::int64_t channels, float* mean,
    float* variance) {
  __shared__ Moments all[final_rows][final_columns];
  const std::int64_t channel = std::int64_t{blockIdx.x} * final_columns + threadIdx.x;
  Moments mine = {};
  if (channel < channels)
#pragma unroll 4
    for (std::int64_t i = threadIdx.y; i < count; i += final_rows) {
      const Part part = Part::of(rows, i, count);
      const float* from = parts + i * 2 * channels + channel;
      mine.merge({static_cast<float>(part.end - part.begin), from[0], from[channels]});
    }
  all[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int y = 1; y < final_rows; ++y) mine.merge(all[y][threadIdx.x]);
  mean[channel] = mine.mean;
  variance[channel] = mine.squares / mine.count;
}

__global__ __launch_bounds__(spread_threads) void merge_groups(const float* groups, int count,
                                                               std::int64_t channels, float* mean,
                                                               float* variance) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * spread_threads + threadIdx.x;
  if (channel >= channels) return;
  Moments all = {};
  for (int i = 0; i < count; ++i) {
    const float* group = groups + i * 2 * channels + channel;
    // Groups have equally many rows, so each counts as one row whose squared deviation is the
    // group's variance.
    all.merge({1, group[0], group[channels]});
  }
  mean[channel] = all.mean;
  variance[channel] = all.squares / all.count;
}

/// Mean and 1 / sqrt(variance + epsilon) of each of a thread's channels.
template <int n>
struct Normal {
  float mean[n], rstd[n];

  __device__ __forceinline__ Normal(const float* means, const float* variances,
                                    float epsilon, std::int64_t column) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      mean[i] = means[column + i];
      rstd[i] = rsqrtf(variances[column + i] + epsilon);
    }
  }
};

template <class T>
struct Forward {
  const T *x, *residual;
  const float *mean, *variance;
  const T *weight, *bias;
  T* y;
  std::int64_t rows;
  float epsilon;
  bool relu;
};

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void normalise(Forward<T> op, Spread at) {
  if (!at.works()) return;
  const std::int64_t column = at.column();
  const Normal<n> normal(op.mean, op.variance, op.epsilon, column);
  float scale[n], bias[n];
#pragma unroll
  for (int i = 0; i < n; ++i) {
    scale[i] = normal.rstd[i] * load_float(op.weight + column + i);
    bias[i] = load_float(op.bias + column + i);
  }
  struct Read {
    Pack<T, n> x, residual;
  };
  over_rows<of_many>(
      at.row_of_grid(), op.rows, std::int64_t{gridDim.x} * at.down,
      [&](std::int64_t row) {
        const std::int64_t here = row * at.columns + column;
        Read read = {};
        read.x = load<n>(op.x + here);
        if (op.residual) read.residual = load<n>(op.residual + here);
        return read;
      },
      [&](std::int64_t row, const Read& read) {
        const Floats<n> residual = unpack(read.residual);
        Floats<n> values = unpack(read.x);
#pragma unroll
        for (int i = 0; i < n; ++i) {
          float& value = values.at[i];
          value = (value - normal.mean[i]) * scale[i] + bias[i];
          if (op.residual) value += residual.at[i];
          if (op.relu && value < 0) value = 0;
        }
        store_floats<n>(op.y + row * at.columns + column, values);
      });
}

/// Operands that both operations of the backward pass read.
template <class T>
struct Gradient {
  const T *dy, *x, *y;  // y is null without relu
  const float *mean, *variance;
  std::int64_t rows;
  float epsilon;

  template <int n>
  struct Read {
    Pack<T, n> dy, x, y;
  };
  template <int n>
  __device__ __forceinline__ Read<n> read(std::int64_t here) const {
    Read<n> out = {};
    out.dy = load<n>(dy + here);
    out.x = load<n>(x + here);
    if (y) out.y = load<n>(y + here);
    return out;
  }
  /// Returns dz, the gradient before relu: dy, but 0 where relu made y 0.
  template <int n>
  __device__ __forceinline__ Floats<n> before_relu(const Read<n>& from) const {
    Floats<n> out = unpack(from.dy);
    if (!y) return out;
    const Floats<n> values = unpack(from.y);
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (!(values.at[i] > 0)) out.at[i] = 0;
    return out;
  }
};

/// For each part, writes two sums over its rows to `parts` [parts, 2 * C]: the sum of dz, and the
/// sum of dz times the normalised x.
template <class T, int n>
__global__ __launch_bounds__(spread_threads) void part_sums(Gradient<T> op, Spread at,
                                                            float* parts) {
  __shared__ float shared[2 * n][spread_threads];
  const std::int64_t column = at.column();
  const Part part = Part::of(op.rows, blockIdx.x, gridDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  float sums[2 * n] = {};
  if (at.works()) {
    const Normal<n> normal(op.mean, op.variance, op.epsilon, column);
    over_rows<of_many>(
        part.begin + at.row(), part.end, at.down,
        [&](std::int64_t row) { return op.template read<n>(row * at.columns + column); },
        [&](std::int64_t, const auto& read) {
          const Floats<n> dz = op.template before_relu<n>(read), x = unpack(read.x);
#pragma unroll
          for (int i = 0; i < n; ++i) {
            sums[i] += dz.at[i];
            sums[n + i] += dz.at[i] * (x.at[i] - normal.mean[i]);
          }
        });
#pragma unroll
    for (int i = 0; i < n; ++i) sums[n + i] *= normal.rstd[i];
  }
  for (int span = 1; span < at.down; span *= 2) {
    const bool takes = at.row() % (2 * span) == 0 && at.row() + span < at.down;
    if (at.row() % (2 * span) == span)
#pragma unroll
      for (int i = 0; i < 2 * n; ++i) shared[i][thread] = sums[i];
    __syncthreads();
    if (takes)
#pragma unroll
      for (int i = 0; i < 2 * n; ++i) sums[i] += shared[i][thread + span * at.across];
    __syncthreads();
  }
  if (at.row() != 0 || column >= at.columns) return;
  float* out = parts + std::int64_t{blockIdx.x} * 2 * at.columns + column;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    out[i] = sums[i];
    out[at.columns + i] = sums[n + i];
  }
}

template <class T>
struct Backward {
  Gradient<T> from;
  const T* weight;
  const float* sums;  // [2, C]
  float share;        // 1 / (number of rows of the group)
  T *dx, *dresidual;
};

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void differentiate(Backward<T> op, Spread at) {
  if (!at.works()) return;
  const std::int64_t column = at.column();
  const Normal<n> normal(op.from.mean, op.from.variance, op.from.epsilon, column);
  float scale[n], mean[n], along[n];
#pragma unroll
  for (int i = 0; i < n; ++i) {
    scale[i] = normal.rstd[i] * load_float(op.weight + column + i);
    mean[i] = op.sums[column + i] * op.share;
    along[i] = op.sums[at.columns + column + i] * op.share * normal.rstd[i];
  }
  over_rows<of_many>(
      at.row_of_grid(), op.from.rows, std::int64_t{gridDim.x} * at.down,
      [&](std::int64_t row) { return op.from.template read<n>(row * at.columns + column); },
      [&](std::int64_t row, const auto& read) {
        const Floats<n> dz = op.from.template before_relu<n>(read), x = unpack(read.x);
        const std::int64_t here = row * at.columns + column;
        if (op.dresidual) store_floats<n>(op.dresidual + here, dz);
        Floats<n> dx = {};
#pragma unroll
        for (int i = 0; i < n; ++i)
          dx.at[i] = scale[i] * (dz.at[i] - mean[i] - (x.at[i] - normal.mean[i]) * along[i]);
        store_floats<n>(op.dx + here, dx);
      });
}

/// The number of blocks for each range of columns. All ranges together get about 4 blocks for each
/// multiprocessor, or fewer if a block would otherwise have too few rows.
unsigned blocks_on_rows(const Context& context, const Spread& at, std::int64_t rows) {
  const std::int64_t most =
      std::max<std::int64_t>(1, 4 * context.multiprocessors / at.blocks_across());
  return std::max(1u, blocks_for(rows, 2 * of_one * at.down, most));
}

/// Calls run(std::integral_constant<int, n>, spread, blocks), where n is the number of elements
/// that can be read at once from all the operands, which are [M, C].
template <class T, class Run, class... Operands>
void spread_over(const Context& context, std::int64_t rows, std::int64_t channels, const Run& run,
                 const Operands*... operands) {
  const auto with = [&](auto n) {
    const Spread at = Spread::over(channels, n);
    run(n, at, dim3(blocks_on_rows(context, at, rows), at.blocks_across()));
  };
  if ((has_aligned_rows(operands, channels) && ...))
    with(std::integral_constant<int, in_16_bytes<T>>());
  else
    with(std::integral_constant<int, 1>());
}

template <class T>
void statistics(const Context& context, const BatchNormStatistics& op) {
  const T* x = data<T>(op.x);
  const std::int64_t rows = op.x.shape()[0], channels = op.x.shape()[1];
  const auto run = [&](auto n, const Spread& at, dim3 blocks) {
    const Tensor parts =
        context.device.tensor({std::int64_t{blocks.x}, 2, channels}, MemoryKind::workspace);
    launch(context, "batch_norm_statistics", part_moments<T, n()>, blocks, spread_threads, x, rows,
           at, parts.data<float>());
    launch(context, "batch_norm_statistics", all_moments, blocks_for(channels, final_columns),
           dim3(final_columns, final_rows), parts.data<float>(), std::int64_t{blocks.x}, rows,
           channels, op.mean.data<float>(), op.variance.data<float>());
  };
  spread_over<T>(context, rows, channels, run, x);
}

template <class T>
void forward(const Context& context, const BatchNormForward& op) {
  const Forward<T> with{.x = data<T>(op.x),
                        .residual = data<T>(op.residual),
                        .mean = op.mean.data<float>(),
                        .variance = op.variance.data<float>(),
                        .weight = data<T>(op.weight),
                        .bias = data<T>(op.bias),
                        .y = data<T>(op.y),
                        .rows = op.x.shape()[0],
                        .epsilon = op.epsilon,
                        .relu = op.relu};
  const auto run = [&](auto n, const Spread& at, dim3 blocks) {
    launch(context, "batch_norm_forward", normalise<T, n()>, blocks, spread_threads, with, at);
  };
  spread_over<T>(context, with.rows, op.x.shape()[1], run, with.x, with.residual, with.y);
}

template <class T, class Op>
Gradient<T> gradient(const Op& op) {
  return {data<T>(op.dy),
          data<T>(op.x),
          data<T>(op.y),
          op.mean.template data<float>(),
          op.variance.template data<float>(),
          op.x.shape()[0],
          op.epsilon};
}

template <class T>
void reduce(const Context& context, const BatchNormReduce& op) {
  const auto from = gradient<T>(op);
  const std::int64_t channels = op.x.shape()[1];
  const auto run = [&](auto n, const Spread& at, dim3 blocks) {
    const Tensor parts =
        context.device.tensor({std::int64_t{blocks.x}, 2 * channels}, MemoryKind::workspace);
    launch(context, "batch_norm_reduce", part_sums<T, n()>, blocks, spread_threads, from, at,
           parts.data<float>());
    sum_parts(context, parts, op.sums.reshaped({2 * channels}), {});
  };
  spread_over<T>(context, from.rows, channels, run, from.dy, from.x, from.y);
}

template <class T>
void backward(const Context& context, const BatchNormBackward& op) {
  const Backward<T> with{.from = gradient<T>(op),
                         .weight = data<T>(op.weight),
                         .sums = op.sums.data<float>(),
                         .share = 1 / static_cast<float>(op.rows),
                         .dx = data<T>(op.dx),
                         .dresidual = data<T>(op.dresidual)};
  const auto run = [&](auto n, const Spread& at, dim3 blocks) {
    launch(context, "batch_norm_backward", differentiate<T, n()>, blocks, spread_threads, with, at);
  };
  spread_over<T>(context, with.from.rows, op.x.shape()[1], run, with.from.dy, with.from.x,
                 with.from.y, with.dx, with.dresidual);
}

}  // namespace

void batch_norm_statistics(const Context& context, const BatchNormStatistics& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { statistics<T>(context, op); });
}

void batch_norm_merge(const Context& context, const BatchNormMerge& op) {
  const std::int64_t channels = op.mean.count();
  launch(context, "batch_norm_merge", merge_groups, blocks_for(channels, spread_threads),
         spread_threads, op.groups.data<float>(), static_cast<int>(op.groups.shape()[0]), channels,
         op.mean.data<float>(), op.variance.data<float>());
}

void batch_norm_forward(const Context& context, const BatchNormForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { forward<T>(context, op); });
}

void batch_norm_reduce(const Context& context, const BatchNormReduce& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { reduce<T>(context, op); });
}

void batch_norm_backward(const Context& context, const BatchNormBackward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { backward<T>(context, op); });
}

}  // namespace ringside::cuda
