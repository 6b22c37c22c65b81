// Biases of attention that depend on the distance between query and key.
#pragma once

#include <string>

#include "core/nn/unit.h"

namespace ringside {

struct RelativeBiasOptions {
  std::int64_t positions = 1;  // of queries, and of keys
  std::int64_t heads = 1;
  std::int64_t buckets = 32;    // at least 4, and even
  std::int64_t furthest = 128;  // more than half of `buckets`
  /// Whether queries see later keys. If not, all buckets are for earlier keys.
  bool both_sides = true;
};

/// The number of the bucket for a key that is `distance` positions behind the query (before it if
/// negative), as in Hugging Face's T5. Half of the buckets, or a half of each side's, are for one
/// distance each; the others grow in proportion to the distance up to `furthest`, and the last of
/// them has all distances from there on.
std::int64_t bucket_of(std::int64_t distance, const RelativeBiasOptions& options);

/// A learned bias for each head and bucket of distances (Raffel et al. 2020, section 2.1). One unit
/// of a stack has the layer; the others read its result as the value of an edge of the model, and
/// add up its gradient there. Parameter: "NAME.buckets" [buckets, heads].
class RelativeBias {
 public:
  RelativeBias(Unit& unit, const std::string& name, const RelativeBiasOptions& options, Init init);

  /// Returns a row for each distance from a query to a key: [2 * positions - 1, heads]. Keeps
  /// nothing for backward().
  Tensor forward() const;
  /// Takes the gradient of these rows, fp32; an empty one stands for 0.
  void backward(const Tensor& gradient, Saved& saved);

 private:
  void add_up(const Tensor& gradient) const;

  Unit& unit_;
  std::int64_t distances_, heads_;
  std::size_t table_;
  Tensor buckets_;  // int32 [1, distances]
};

}  // namespace ringside
