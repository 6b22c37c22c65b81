#include "core/device/cuda/module/softmax.h"

#include <cfloat>

#include "core/device/cuda/module/launch.h"
#include "core/device/cuda/module/reduce.cuh"
#include "core/device/cuda/module/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int row_threads = 256;

/// Block (t, head) computes row t of a head.
template <class T>
__global__ __launch_bounds__(row_threads) void forward_row(SoftmaxForward op) {
  const std::int64_t row = std::int64_t{blockIdx.y} * op.positions + blockIdx.x;
  const std::int64_t seen = op.causal ? std::int64_t{blockIdx.x} + 1 : op.positions;
  const float* scores = op.scores + row * op.positions;
  T* p = static_cast<T*>(op.p) + row * op.positions;
  // The maximum starts at the least finite number, and so is never minus infinity: minus
  // infinity subtracted from a score of minus infinity would give NaN.
  float most = -FLT_MAX, sum = 0;
  for (std::int64_t j = threadIdx.x; j < seen; j += row_threads) most = fmaxf(most, scores[j]);
  most = block_max(most, 0);
  for (std::int64_t j = threadIdx.x; j < seen; j += row_threads) sum += expf(scores[j] - most);
  sum = block_sum(sum, 0);
  const float factor = 1 / sum;
  for (std::int64_t j = threadIdx.x; j < op.positions; j += row_threads)
    store_float(p + j, j < seen ? expf(scores[j] - most) * factor : 0.0f);
  if (threadIdx.x == 0) op.statistics[row] = most + logf(sum);
}

template <class T>
__global__ __launch_bounds__(row_threads) void backward_row(SoftmaxBackward op) {
  const std::int64_t row = std::int64_t{blockIdx.y} * op.positions + blockIdx.x;
  const std::int64_t seen = op.causal ? std::int64_t{blockIdx.x} + 1 : op.positions;
  const float *scores = op.scores + row * op.positions, *dp = op.dp + row * op.positions;
  T *p = static_cast<T*>(op.p) + row * op.positions,
    *ds = static_cast<T*>(op.ds) + row * op.positions;
  const std::int64_t at = blockIdx.x * op.y_stride + blockIdx.y * op.depth;
  const T *y = static_cast<const T*>(op.y) + at, *dy = static_cast<const T*>(op.dy) + at;
  float dot = 0;
  for (std::int64_t d = threadIdx.x; d < op.depth; d += row_threads)
    dot += load_float(dy + d) * load_float(y + d);
  dot = block_sum(dot, 0);
  const float log_sum = op.statistics[row];
  for (std::int64_t j = threadIdx.x; j < op.positions; j += row_threads) {
    const float probability = j < seen ? expf(scores[j] - log_sum) : 0.0f;
    const float slope = j < seen ? probability * (dp[j] - dot) : 0.0f;
    store_float(p + j, probability);
    store_float(ds + j, slope);
  }
}

/// One launch for all heads. There must be no more heads than a grid may have rows, 65535.
template <class Op>
void launch_rows(const Context& context, const char* name, void (*kernel)(Op), const Op& op) {
  launch(context, name, kernel, dim3(blocks_for(op.positions, 1), static_cast<unsigned>(op.heads)),
         row_threads, op);
}

}  // namespace

void softmax_forward(const Context& context, const SoftmaxForward& op) {
  with_type(op.dtype, [&]<class T>(std::type_identity<T>) {
    launch_rows(context, "softmax_forward", forward_row<T>, op);
  });
}

void softmax_backward(const Context& context, const SoftmaxBackward& op) {
  with_type(op.dtype, [&]<class T>(std::type_identity<T>) {
    launch_rows(context, "softmax_backward", backward_row<T>, op);
  });
}

}  // namespace ringside::cuda
