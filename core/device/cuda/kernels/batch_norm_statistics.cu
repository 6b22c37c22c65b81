// Statistics of batch norm: the mean and variance of each channel. They are computed in two steps:
// each block sums a part of the rows, then the sums of the parts are merged. The number of parts
// depends on the device and on the shape, dtype and alignment of the operands alone, and so do the
// bits of the result.
#include "core/device/cuda/kernels/batch_norm_rows.cuh"
#include "core/device/cuda/kernels/kernels.h"

namespace ringside::cuda {
namespace {

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

}  // namespace ringside::cuda
