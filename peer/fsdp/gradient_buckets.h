// GradientBuckets: neighbouring FSDP units whose gradients are reduced together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "peer/fsdp/fsdp_units.h"
#include "peer/fsdp/sharded_storage.h"

namespace ringside::peer {

/// The FSDP units from `first` to `last`: elements [begin, begin + count) of the model.
struct GradientBucket {
  std::string name;
  std::size_t first = 0, last = 0;
  std::int64_t begin = 0, count = 0;
};

/// All FSDP units of a model in buckets. FSDP units say what is gathered at once, and buckets what
/// is reduced at once: large buckets make fewer messages of gradients without more memory of
/// gathered parameters (the reduce_bucket_size of DeepSpeed's ZeRO stages).
class GradientBuckets {
 public:
  /// Backward finishes FSDP units from the last to the first; in this order they are joined until a
  /// bucket has at least `bytes` of gradients of this dtype. With 0 every FSDP unit is a bucket.
  GradientBuckets(const FsdpUnits& fsdp_units, DType dtype, double bytes);

  std::size_t size() const { return buckets_.size(); }
  /// Buckets in the order of backward: bucket 0 has the last FSDP units of the model.
  const GradientBucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }
  /// The bucket that has the FSDP unit.
  std::size_t of(std::size_t fsdp_unit) const { return of_fsdp_unit_[fsdp_unit]; }
  /// The number of elements, with padding, that one rank has of the bucket: its shards of all FSDP
  /// units.
  std::int64_t part_count(std::size_t bucket, const Shards& shards) const;

 private:
  std::vector<GradientBucket> buckets_;
  std::vector<std::size_t> of_fsdp_unit_;
};

}  // namespace ringside::peer
