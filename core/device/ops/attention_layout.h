// AttentionLayout: the extents of an attention, and where its operands lie in memory. Devices that
// compute attention themselves share it.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/device/ops/attention.h"

namespace ringside {

/// Strides and offsets count elements. Each position has a row, in which all heads of queries lie
/// side by side. The heads of keys, then those of values, lie behind them in the same row, or in a
/// row of another tensor.
struct AttentionLayout {
  std::int64_t samples, queries, keys, heads, key_heads, depth;
  std::int64_t q_stride, kv_stride;  // from one position to the next
  std::int64_t k_begin, v_begin;     // of a position before its keys, before its values
  float scale;

  std::int64_t width() const { return heads * depth; }
  /// Number of heads of queries that read the same keys and values.
  std::int64_t readers() const { return heads / key_heads; }
  /// Offsets in their tensors of the first elements of q, k, v, y and the statistics for a head of
  /// queries.
  std::int64_t q_offset(std::int64_t sample, std::int64_t head) const {
    return sample * queries * q_stride + head * depth;
  }
  std::int64_t k_offset(std::int64_t sample, std::int64_t head) const {
    return sample * keys * kv_stride + k_begin + head / readers() * depth;
  }
  std::int64_t v_offset(std::int64_t sample, std::int64_t head) const {
    return k_offset(sample, head) - k_begin + v_begin;
  }
  std::int64_t y_offset(std::int64_t sample, std::int64_t head) const {
    return sample * queries * width() + head * depth;
  }
  std::int64_t statistics_offset(std::int64_t sample, std::int64_t head) const {
    return (sample * heads + head) * queries;
  }
};

/// Queries, keys and values in one tensor: those of AttentionForward and AttentionBackward.
inline AttentionLayout packed_attention(const Tensor& qkv, const Tensor& y) {
  const std::int64_t heads = y.shape()[2], key_heads = key_heads_of(qkv, y), depth = y.shape()[3];
  const std::int64_t stride = (heads + 2 * key_heads) * depth;
  return {.samples = y.shape()[0],
          .queries = y.shape()[1],
          .keys = y.shape()[1],
          .heads = heads,
          .key_heads = key_heads,
          .depth = depth,
          .q_stride = stride,
          .kv_stride = stride,
          .k_begin = heads * depth,
          .v_begin = (heads + key_heads) * depth,
          .scale = 1 / std::sqrt(static_cast<float>(depth))};
}

/// Keys and values in a tensor of their own: those of CrossAttentionForward and its backward.
inline AttentionLayout cross_attention(const Tensor& q, const Tensor& kv, float scale) {
  const std::int64_t heads = q.shape()[2], depth = q.shape()[3];
  return {.samples = q.shape()[0],
          .queries = q.shape()[1],
          .keys = kv.shape()[1],
          .heads = heads,
          .key_heads = heads,
          .depth = depth,
          .q_stride = heads * depth,
          .kv_stride = 2 * heads * depth,
          .k_begin = 0,
          .v_begin = heads * depth,
          .scale = scale};
}

}  // namespace ringside
