// GradientReduction: the sums of a group's gradients by a compressor, of which each rank takes its
// shards.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/comm/communicator.h"
#include "core/scheme/state.h"

namespace ringside::peer {

/// Sums gradients bucket by bucket (GradientBuckets) over the N ranks of a group that shards a
/// model. A bucket must be finished before its next sum begins; several may be under way. For one
/// thread; all ranks of the group do the same. Nothing blocks.
class GradientReduction {
 public:
  virtual ~GradientReduction() = default;

  /// Whether begin() gets buckets as they lie in the model (ShardCarrier::takes_whole). The sum may
  /// then overwrite them.
  virtual bool takes_whole() const { return false; }
  /// Encodes a bucket as GradientShards sends it, and begins to move the codes. Null work, here and
  /// below: there is nothing to move.
  virtual WorkPtr begin(std::size_t bucket, const Tensor& gradient) = 0;
  /// After the wait for the round before: begins the next one, from 1 to rounds() - 1.
  virtual WorkPtr go_on(std::size_t bucket, int round) = 0;
  virtual int rounds() const = 0;
  /// After the last wait: writes this rank's shards of the sum over ranks, those of all FSDP units
  /// one after the other. Their padding becomes 0.
  virtual void finish(std::size_t bucket, const Tensor& part) = 0;

  /// Visits what this rank keeps from one step to the next: errors, and the compressors' own state.
  virtual void visit_state(const StateVisitor& visit) = 0;

  /// What moves the codes, for traces: "all-to-all".
  virtual std::string_view name() const = 0;
};

}  // namespace ringside::peer
