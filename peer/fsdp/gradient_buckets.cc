#include "peer/fsdp/gradient_buckets.h"

namespace ringside::peer {

GradientBuckets::GradientBuckets(const FsdpUnits& bundles, DType dtype, double bytes)
    : of_bundle_(bundles.size()) {
  const auto element = static_cast<double>(size_of(dtype));
  double held = bytes;  // by the last bucket; that it is full begins the first one
  for (std::size_t b = bundles.size(); b-- > 0;) {
    if (held >= bytes) {
      buckets_.push_back({bundles[b].name, b, b});
      held = 0;
    }
    buckets_.back().first = b;
    held += element * static_cast<double>(bundles[b].count);
    of_bundle_[b] = buckets_.size() - 1;
  }
  for (GradientBucket& bucket : buckets_)
    if (bucket.last > bucket.first)
      bucket.name = "bucket from " + bundles[bucket.first].name + " to " + bucket.name;
}

}  // namespace ringside::peer
