// The softmax between the two products of plain attention, and its gradient.
#pragma once

#include "core/device/cuda/runtime/context.h"

namespace ringside::cuda {

/// The scores of `heads` heads of one sample: for each head [T, S], with T = queries and S = keys.
/// Row t holds the scores of query t. With `causal`, query t sees only keys 0 to t. All pointers
/// are to the first of these heads, here and below.
struct Scores {
  const float* products;  // [heads, T, S]: the scores without their biases
  /// Of `dtype`; null: none. The bias of query t, key s and head h is element
  /// (s - t + T - 1) * bias_stride + h.
  const void* bias;
  std::int64_t bias_stride;
  std::int64_t heads, queries, keys;
  bool causal;
  DType dtype;
};

/// If the dtype is fp32, `p` may be the memory of the products.
struct SoftmaxForward {
  Scores scores;
  void* p;            // [heads, T, S] of `dtype`: probabilities; 0 for keys not seen
  float* statistics;  // [heads, T]: log-sum-exp of each row of scores
};
void softmax_forward(const Context& context, const SoftmaxForward& op);

/// p = e^(scores - statistics) and ds = p * (dp - d), where d is the dot product of the query's
/// rows of dy and y; both are 0 for keys that are not seen. In y and dy the rows of one head lie
/// `y_stride` elements apart, and heads lie `depth` elements apart.
struct SoftmaxBackward {
  Scores scores;
  const float* dp;
  const float* statistics;
  const void *y, *dy;  // of `dtype`
  std::int64_t y_stride, depth;
  void *p, *ds;  // [heads, T, S] of `dtype`; may be the products and `dp` if fp32
};
void softmax_backward(const Context& context, const SoftmaxBackward& op);

/// The gradient of the biases of one sample: out[(s - t + T - 1) * stride + h] += the sum of
/// ds[h, t, s] over all queries and keys at the same distance, in the order of the queries.
struct SumDistances {
  const void* ds;  // [heads, T, S] of `dtype`
  float* out;
  std::int64_t stride;
  std::int64_t heads, queries, keys;
  DType dtype;
};
void sum_distances(const Context& context, const SumDistances& op);

}  // namespace ringside::cuda
