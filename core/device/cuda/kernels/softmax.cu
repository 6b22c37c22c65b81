#include "core/device/cuda/kernels/softmax.h"

#include <cfloat>

#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int row_threads = 256;

/// Row t of a head, which block (t, head) computes.
template <class T>
struct Row {
  std::int64_t index, keys, seen, bias_stride;
  const float* products;
  const T* bias;  // for key 0; null: none

  __device__ explicit Row(const Scores& op)
      : index(std::int64_t{blockIdx.y} * op.queries + blockIdx.x),
        keys(op.keys),
        seen(op.causal ? std::int64_t{blockIdx.x} + 1 : op.keys),
        bias_stride(op.bias_stride),
        products(op.products + index * op.keys),
        bias(static_cast<const T*>(op.bias)) {
    if (bias) bias += (op.queries - 1 - std::int64_t{blockIdx.x}) * bias_stride + blockIdx.y;
  }
  __device__ __forceinline__ float score(std::int64_t key) const {
    return bias ? products[key] + load_float(bias + key * bias_stride) : products[key];
  }
};

template <class T>
__global__ __launch_bounds__(row_threads) void forward_row(SoftmaxForward op) {
  const Row<T> row(op.scores);
  T* p = static_cast<T*>(op.p) + row.index * row.keys;
  // The maximum starts at the least finite number, and so is never minus infinity: minus
  // infinity subtracted from a score of minus infinity would give NaN.
  float most = -FLT_MAX, sum = 0;
  for (std::int64_t j = threadIdx.x; j < row.seen; j += row_threads)
    most = fmaxf(most, row.score(j));
  most = block_max(most, 0);
  for (std::int64_t j = threadIdx.x; j < row.seen; j += row_threads)
    sum += expf(row.score(j) - most);
  sum = block_sum(sum, 0);
  const float factor = 1 / sum;
  for (std::int64_t j = threadIdx.x; j < row.keys; j += row_threads)
    store_float(p + j, j < row.seen ? expf(row.score(j) - most) * factor : 0.0f);
  if (threadIdx.x == 0) op.statistics[row.index] = most + logf(sum);
}

template <class T>
__global__ __launch_bounds__(row_threads) void backward_row(SoftmaxBackward op) {
  const Row<T> row(op.scores);
  const float* dp = op.dp + row.index * row.keys;
  T *p = static_cast<T*>(op.p) + row.index * row.keys,
    *ds = static_cast<T*>(op.ds) + row.index * row.keys;
  const std::int64_t at = blockIdx.x * op.y_stride + blockIdx.y * op.depth;
  const T *y = static_cast<const T*>(op.y) + at, *dy = static_cast<const T*>(op.dy) + at;
  float dot = 0;
  for (std::int64_t d = threadIdx.x; d < op.depth; d += row_threads)
    dot += load_float(dy + d) * load_float(y + d);
  dot = block_sum(dot, 0);
  const float log_sum = op.statistics[row.index];
  for (std::int64_t j = threadIdx.x; j < row.keys; j += row_threads) {
    const float probability = j < row.seen ? expf(row.score(j) - log_sum) : 0.0f;
    const float slope = j < row.seen ? probability * (dp[j] - dot) : 0.0f;
    store_float(p + j, probability);
    store_float(ds + j, slope);
  }
}

/// Each thread sums one diagonal of a head's square.
template <class T>
__global__ __launch_bounds__(row_threads) void sum_diagonals(SumDistances op) {
  const std::int64_t i = std::int64_t{blockIdx.x} * row_threads + threadIdx.x;
  if (i >= op.queries + op.keys - 1) return;
  const T* square = static_cast<const T*>(op.ds) + blockIdx.y * op.queries * op.keys;
  const std::int64_t to_key_0 = op.queries - 1 - i;  // the query at this distance from key 0
  const std::int64_t first = to_key_0 > 0 ? to_key_0 : 0;
  const std::int64_t end = i < op.keys ? op.queries : to_key_0 + op.keys;
  float sum = 0;
  for (std::int64_t t = first; t < end; ++t)
    sum += load_float(square + t * op.keys + t - to_key_0);
  op.out[i * op.stride + blockIdx.y] += sum;
}

/// One launch for all heads. There must be no more heads than a grid may have rows, 65535.
template <class Op>
void launch_rows(const Context& context, const char* name, void (*kernel)(Op), const Op& op) {
  launch(context, name, kernel,
         dim3(blocks_for(op.scores.queries, 1), static_cast<unsigned>(op.scores.heads)),
         row_threads, op);
}

}  // namespace

void softmax_forward(const Context& context, const SoftmaxForward& op) {
  with_type(op.scores.dtype, [&]<class T>(std::type_identity<T>) {
    launch_rows(context, "softmax_forward", forward_row<T>, op);
  });
}

void softmax_backward(const Context& context, const SoftmaxBackward& op) {
  with_type(op.scores.dtype, [&]<class T>(std::type_identity<T>) {
    launch_rows(context, "softmax_backward", backward_row<T>, op);
  });
}

void sum_distances(const Context& context, const SumDistances& op) {
  with_type(op.dtype, [&]<class T>(std::type_identity<T>) {
    launch(context, "sum_distances", sum_diagonals<T>,
           dim3(blocks_for(op.queries + op.keys - 1, row_threads), static_cast<unsigned>(op.heads)),
           row_threads, op);
  });
}

}  // namespace ringside::cuda
