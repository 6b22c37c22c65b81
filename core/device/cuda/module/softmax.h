// The softmax between the two products of plain attention, and its gradient.
#pragma once

#include "core/device/cuda/module/context.h"

namespace ringside::cuda {

/// The scores of `heads` heads of one sample, [T, T] for each head, with T = positions. Row t holds
/// the scores of query t. With `causal`, query t sees only keys 0 to t. All pointers are to the
/// first of these heads. If `dtype` is fp32, `p` may be the memory of `scores`.
struct SoftmaxForward {
  const float* scores;
  void* p;            // [heads, T, T] of `dtype`: probabilities; 0 for keys not seen
  float* statistics;  // [heads, T]: log-sum-exp of each row of scores
  std::int64_t heads, positions;
  bool causal;
  DType dtype;
};
void softmax_forward(const Context& context, const SoftmaxForward& op);

/// p = e^(scores - statistics) and ds = p * (dp - d), where d is the dot product of the query's
/// rows of dy and y; both are 0 for keys that are not seen. In y and dy the rows of one head lie
/// `y_stride` elements apart, and heads lie `depth` elements apart.
struct SoftmaxBackward {
  const float *scores, *dp;
  const float* statistics;
  const void *y, *dy;  // of `dtype`
  std::int64_t y_stride, depth;
  void *p, *ds;  // [heads, T, T] of `dtype`; may be `scores` and `dp` if fp32
  std::int64_t heads, positions;
  bool causal;
  DType dtype;
};
void softmax_backward(const Context& context, const SoftmaxBackward& op);

}  // namespace ringside::cuda
