// Shards: the part of every FSDP unit that a rank keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/optim/optimizer.h"
#include "peer/fsdp/fsdp_units.h"

namespace ringside::peer {

/// Every FSDP unit's range is padded with zeros so that it divides into equal shards, one for each
/// rank of a group; rank r keeps the r-th shard of every FSDP unit. An "own range" has a rank's
/// shards of all FSDP units one after the other. A "whole range" has all FSDP units with their
/// padding one after the other. In a group of one rank there is no padding, and both are the model.
class Shards {
 public:
  /// The FSDP units outlive this object.
  Shards(const FsdpUnits& fsdp_units, int rank, int ranks);

  const FsdpUnits& fsdp_units() const { return fsdp_units_; }
  std::size_t size() const { return shards_.size(); }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// The number of elements of an own range, and of a whole range.
  std::int64_t own_count() const { return total_; }
  std::int64_t whole_count() const { return total_ * ranks_; }
  /// The number of elements of the FSDP unit, and of the FSDP unit with its padding.
  std::int64_t count(std::size_t fsdp_unit) const { return fsdp_units_[fsdp_unit].count; }
  std::int64_t padded_count(std::size_t fsdp_unit) const {
    return shards_[fsdp_unit].count * ranks_;
  }
  /// Where the FSDP unit's shard begins in an own range, and where in the FSDP unit.
  std::int64_t begin(std::size_t fsdp_unit) const { return shards_[fsdp_unit].begin; }
  std::int64_t begin_in_fsdp_unit(std::size_t fsdp_unit) const {
    return rank_ * shards_[fsdp_unit].count;
  }
  /// How many elements of the FSDP unit's shard are not padding.
  std::int64_t real_count(std::size_t fsdp_unit) const;

  /// Returns the part of an own range that is the FSDP unit's shard.
  Tensor of_own(const Tensor& own, std::size_t fsdp_unit) const;
  /// Returns the part of a whole range that is the FSDP unit with its padding.
  Tensor of_whole(const Tensor& whole, std::size_t fsdp_unit) const;
  /// Returns the part of one padded FSDP unit that is this rank's shard.
  Tensor of_fsdp_unit(const Tensor& padded, std::size_t fsdp_unit) const;

  /// The map from an own range to the parameters of the model.
  ParameterMap parameter_map() const;

 private:
  struct Shard {
    std::int64_t begin, count;  // in own ranges
  };

  const FsdpUnits& fsdp_units_;
  int rank_, ranks_;
  std::vector<Shard> shards_;
  std::int64_t total_ = 0;
};

}  // namespace ringside::peer
