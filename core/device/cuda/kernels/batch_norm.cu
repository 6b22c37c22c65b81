// Forward and backward pass of batch norm. The sums that backward needs are computed in two steps,
// as the statistics are (batch_norm_statistics.cu).
#include "core/device/cuda/kernels/batch_norm_rows.cuh"
#include "core/device/cuda/kernels/column_sums.h"
#include "core/device/cuda/kernels/kernels.h"

namespace ringside::cuda {
namespace {

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
