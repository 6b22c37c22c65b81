// The rows between the two products of plain attention.
#pragma once

#include "core/device/cuda/module/context.h"

namespace ringside::cuda {

/// Scores of `heads` heads of one sample, each [T, T], row t for query t; with `causal` it sees
/// keys up to t. All pointers are to the first of these heads. `scores` may be where `p` is written
/// if that is fp32.
struct SoftmaxForward {
  const float* scores;
  void* p;            // [heads, T, T] of `dtype`: probabilities, zero where nothing is seen
  float* statistics;  // [heads, T]: log-sum-exp
  std::int64_t heads, positions;
  bool causal;
  DType dtype;
};
void softmax_forward(const Context& context, const SoftmaxForward& op);

/// p = e^(scores - statistics); ds = p (dp - dy . y), zero where nothing is seen. Rows of y and dy
/// of one head lie `y_stride` elements apart, heads `depth`.
struct SoftmaxBackward {
  const float *scores, *dp;
  const float* statistics;
  const void *y, *dy;  // of `dtype`
  std::int64_t y_stride, depth;
  void *p, *ds;  // [heads, T, T] of `dtype`; may be `scores` and `dp` if that is fp32
  std::int64_t heads, positions;
  bool causal;
  DType dtype;
};
void softmax_backward(const Context& context, const SoftmaxBackward& op);

}  // namespace ringside::cuda
