// Shards: the part of every FSDP unit that a rank keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/optim/optimizer.h"
#include "peer/fsdp/fsdp_units.h"

namespace ringside::peer {

/// Every bundle's range is padded with zeros so that it divides into equal shards, one for each
/// rank of a group; rank r keeps the r-th shard of every bundle. An "own range" has a rank's shards
/// of all bundles one after the other. A "whole range" has all bundles with their padding one after
/// the other. In a group of one rank there is no padding, and both are the model.
class Shards {
 public:
  /// The bundles outlive this object.
  Shards(const FsdpUnits& bundles, int rank, int ranks);

  const FsdpUnits& bundles() const { return bundles_; }
  std::size_t size() const { return shards_.size(); }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// The number of elements of an own range, and of a whole range.
  std::int64_t own_count() const { return total_; }
  std::int64_t whole_count() const { return total_ * ranks_; }
  /// The number of elements of the bundle, and of the bundle with its padding.
  std::int64_t count(std::size_t bundle) const { return bundles_[bundle].count; }
  std::int64_t padded_count(std::size_t bundle) const { return shards_[bundle].count * ranks_; }
  /// Where the bundle's shard begins in an own range, and where in the bundle.
  std::int64_t begin(std::size_t bundle) const { return shards_[bundle].begin; }
  std::int64_t begin_in_bundle(std::size_t bundle) const { return rank_ * shards_[bundle].count; }
  /// How many elements of the bundle's shard are not padding.
  std::int64_t real_count(std::size_t bundle) const;

  /// Returns the part of an own range that is the bundle's shard.
  Tensor of_own(const Tensor& own, std::size_t bundle) const;
  /// Returns the part of a whole range that is the bundle with its padding.
  Tensor of_whole(const Tensor& whole, std::size_t bundle) const;
  /// Returns the part of one padded bundle that is this rank's shard.
  Tensor of_bundle(const Tensor& padded, std::size_t bundle) const;

  /// Which parameters of the model an own range holds.
  ParameterMap parameter_map() const;

 private:
  struct Shard {
    std::int64_t begin, count;  // in own ranges
  };

  const FsdpUnits& bundles_;
  int rank_, ranks_;
  std::vector<Shard> shards_;
  std::int64_t total_ = 0;
};

}  // namespace ringside::peer
