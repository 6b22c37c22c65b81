#include "peer/fsdp/gradient_buckets.h"

namespace ringside::peer {

GradientBuckets::GradientBuckets(const FsdpUnits& fsdp_units, DType dtype, double bytes)
    : of_fsdp_unit_(fsdp_units.size()) {
  const auto element = static_cast<double>(size_of(dtype));
  const Model& model = fsdp_units.model();
  double held = bytes;  // by the last bucket; that it is full begins the first one
  for (std::size_t b = fsdp_units.size(); b-- > 0;) {
    const std::size_t above = fsdp_units[b].last + 1;
    const bool ends = above < model.units.size() && model.divides_gradients(above);
    if (held >= bytes || ends) {
      buckets_.push_back({fsdp_units[b].name, b, b});
      held = 0;
    }
    GradientBucket& bucket = buckets_.back();
    bucket.first = b;
    bucket.begin = fsdp_units[b].begin;
    bucket.count += fsdp_units[b].count;
    held += element * static_cast<double>(fsdp_units[b].count);
    of_fsdp_unit_[b] = buckets_.size() - 1;
  }
  for (GradientBucket& bucket : buckets_)
    if (bucket.last > bucket.first)
      bucket.name = "bucket from " + fsdp_units[bucket.first].name + " to " + bucket.name;
}

std::int64_t GradientBuckets::part_count(std::size_t bucket, const Shards& shards) const {
  const std::size_t last = buckets_[bucket].last;
  return shards.begin(last) + shards.padded_count(last) / shards.ranks() -
         shards.begin(buckets_[bucket].first);
}

}  // namespace ringside::peer
