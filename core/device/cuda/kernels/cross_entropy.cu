// Softmax cross-entropy: losses and gradient in one pass over the logits, with one block for each
// row.
#include <cfloat>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

template <class T>
struct Operands {
  const T* logits;
  const std::int32_t* targets;
  float *losses, *hits;  // hits may be null
  T* dlogits;            // may be the logits
  std::int64_t classes;  // fewer than 2^30
  float scale;
};

template <int n>
__device__ float highest(const Floats<n>& values) {
  float most = values.at[0];
#pragma unroll
  for (int i = 1; i < n; ++i) most = fmaxf(most, values.at[i]);
  return most;
}

template <int n>
__device__ float exponentials(const Floats<n>& values, float shift) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < n; ++i) sum += __expf(values.at[i] - shift);
  return sum;
}

/// For a row or a part of it: the largest logit, and the sum of e^(logit - largest). The largest
/// starts at the least finite number, because minus infinity minus itself would be NaN. A NaN among
/// the logits never becomes the largest, but makes the sum NaN.
struct Softmax {
  float most = -FLT_MAX, sum = 0;
};

/// The gradient of n logits from class `first` on.
template <int n>
__device__ Floats<n> gradient(Floats<n> values, const Softmax& row, float scale, int target,
                              int first) {
  const float factor = scale / row.sum;
#pragma unroll
  for (int i = 0; i < n; ++i)
    values.at[i] = __expf(values.at[i] - row.most) * factor - (first + i == target ? scale : 0);
  return values;
}

/// Writes the row's loss, and whether the target's logit is the largest.
template <class T>
__device__ void report(const Operands<T>& op, std::int64_t row, const Softmax& all, float wanted) {
  op.losses[row] = logf(all.sum) + (all.most - wanted);
  if (op.hits) op.hits[row] = wanted >= all.most ? 1.0f : 0.0f;
}

/// Writes the results of a row without a target.
template <class T>
__device__ void report_none(const Operands<T>& op, std::int64_t row) {
  if (threadIdx.x == 0) {
    op.losses[row] = 0;
    if (op.hits) op.hits[row] = 0;
  }
  if (!op.dlogits) return;
  for (std::int64_t c = threadIdx.x; c < op.classes; c += blockDim.x)
    store_float(op.dlogits + row * op.classes + c, 0);
}

/// Keeps the row in registers, up to `packs` times 16 bytes a thread.
template <class T, int packs, int threads>
__global__ __launch_bounds__(threads) void kept(Operands<T> op) {
  constexpr int n = in_16_bytes<T>;
  const std::int64_t row = blockIdx.x;
  const T* logits = op.logits + row * op.classes;
  const int classes = static_cast<int>(op.classes), target = op.targets[row];
  if (target < 0) return report_none(op, row);
  const auto column = [](int p) { return (p * threads + static_cast<int>(threadIdx.x)) * n; };
  Pack<T, n> values[packs] = {};
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < classes) values[p] = load<n>(logits + column(p));
  // Read before any thread writes the gradient, which may lie in the memory of the logits.
  const float wanted = load_float(logits + target);
  Softmax all;
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < classes) all.most = fmaxf(all.most, highest(unpack(values[p])));
  all.most = block_max(all.most, 0);
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < classes) all.sum += exponentials(unpack(values[p]), all.most);
  all.sum = block_sum(all.sum, 0);
  if (threadIdx.x == 0) report(op, row, all, wanted);
  if (!op.dlogits) return;
  T* dlogits = op.dlogits + row * op.classes;
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < classes)
      store_floats<n>(dlogits + column(p),
                      gradient(unpack(values[p]), all, op.scale, target, column(p)));
}

/// For rows of any length: reads the row again for the gradient, usually from the cache.
template <class T, int n, int threads>
__global__ __launch_bounds__(threads) void reread(Operands<T> op) {
  const std::int64_t row = blockIdx.x;
  const T* logits = op.logits + row * op.classes;
  const int classes = static_cast<int>(op.classes), target = op.targets[row];
  if (target < 0) return report_none(op, row);
  const int first = static_cast<int>(threadIdx.x) * n;
  const float wanted = load_float(logits + target);
  Softmax mine;
#pragma unroll 4
  for (int c = first; c < classes; c += threads * n) {
    const Floats<n> values = load_floats<n>(logits + c);
    const float most = fmaxf(mine.most, highest(values));
    mine.sum = mine.sum * __expf(mine.most - most) + exponentials(values, most);
    mine.most = most;
  }
  Softmax all;
  all.most = block_max(mine.most, 0);
  all.sum = block_sum(mine.sum * __expf(mine.most - all.most), 0);
  if (threadIdx.x == 0) report(op, row, all, wanted);
  if (!op.dlogits) return;
  T* dlogits = op.dlogits + row * op.classes;
#pragma unroll 4
  for (int c = first; c < classes; c += threads * n)
    store_floats<n>(dlogits + c, gradient(load_floats<n>(logits + c), all, op.scale, target, c));
}

template <class T>
void cross_entropy_of(const Context& context, const CrossEntropy& op) {
  const Operands<T> with{.logits = data<T>(op.logits),
                         .targets = op.targets.data<std::int32_t>(),
                         .losses = op.losses.data<float>(),
                         .hits = op.hits.data<float>(),
                         .dlogits = data<T>(op.dlogits),
                         .classes = op.logits.shape()[1],
                         .scale = op.scale};
  constexpr int n = in_16_bytes<T>;
  const unsigned rows = blocks_for(op.logits.shape()[0], 1);
  const bool aligned =
      has_aligned_rows(with.logits, with.classes) && has_aligned_rows(with.dlogits, with.classes);
  const std::int64_t packs = with.classes / n;
  const auto run = [&](auto* kernel, unsigned threads) {
    launch(context, "cross_entropy", kernel, rows, threads, with);
  };
  if (!aligned)
    with.classes <= 1024 ? run(reread<T, 1, 128>, 128) : run(reread<T, 1, 1024>, 1024);
  else if (packs <= 128)
    run(kept<T, 1, 128>, 128);
  else if (packs <= 512)
    run(kept<T, 2, 256>, 256);
  else if (packs <= 2048)
    run(kept<T, 4, 512>, 512);
  else if (packs <= 4096)
    run(kept<T, 4, 1024>, 1024);
  else if (packs <= 7168)
    run(kept<T, 7, 1024>, 1024);
  else
    run(reread<T, n, 1024>, 1024);
}

}  // namespace

void cross_entropy(const Context& context, const CrossEntropy& op) {
  with_type(op.logits.dtype(),
            [&]<class T>(std::type_identity<T>) { cross_entropy_of<T>(context, op); });
}

}  // namespace ringside::cuda
