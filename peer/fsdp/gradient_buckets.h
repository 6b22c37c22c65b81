// Gradient buckets: neighbouring FSDP units whose gradients are summed in one message.
#pragma once

#include <string>
#include <vector>

#include "peer/fsdp/fsdp_units.h"

namespace ringside::peer {

/// The bundles from `first` to `last`.
struct GradientBucket {
  std::string name;
  std::size_t first = 0, last = 0;
};

/// All bundles of a model in buckets. Bundles say what is gathered at once, and buckets what is
/// reduced at once: large buckets make fewer messages of gradients without more memory of gathered
/// parameters (the reduce_bucket_size of DeepSpeed's ZeRO stages).
class GradientBuckets {
 public:
  /// Backward finishes bundles from the last to the first; in this order they are joined until a
  /// bucket has at least `bytes` of gradients of this dtype. With 0 every bundle is a bucket.
  GradientBuckets(const FsdpUnits& bundles, DType dtype, double bytes);

  std::size_t size() const { return buckets_.size(); }
  /// Buckets in the order of backward: bucket 0 has the last bundles of the model.
  const GradientBucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }
  /// The bucket that has the bundle.
  std::size_t of(std::size_t bundle) const { return of_bundle_[bundle]; }

 private:
  std::vector<GradientBucket> buckets_;
  std::vector<std::size_t> of_bundle_;
};

}  // namespace ringside::peer
