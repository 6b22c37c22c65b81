// Shards: which part of every unit a rank keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/model.h"
#include "core/optim/optimizer.h"

namespace ringside::peer {

/// Every unit's range is padded with zeros so that it divides into equal shards, one for each rank
/// of a group; rank r keeps the r-th shard of every unit. An "own range" has a rank's shards of all
/// units one after the other, in unit order. A "whole range" has all units with their padding one
/// after the other. In a group of one rank there is no padding, and both are the model.
class Shards {
 public:
  /// The model outlives this object.
  Shards(const Model& model, int rank, int ranks);

  const Model& model() const { return model_; }
  std::size_t units() const { return shards_.size(); }
  int ranks() const { return ranks_; }
  /// The number of elements of an own range, and of a whole range.
  std::int64_t own_count() const { return total_; }
  std::int64_t whole_count() const { return total_ * ranks_; }
  /// The number of elements of the unit, and of the unit with its padding.
  std::int64_t count(std::size_t unit) const { return model_.units[unit]->layout().count(); }
  std::int64_t padded_count(std::size_t unit) const { return shards_[unit].count * ranks_; }
  /// Where the unit's shard begins in an own range, and where in the unit.
  std::int64_t begin(std::size_t unit) const { return shards_[unit].begin; }
  std::int64_t begin_in_unit(std::size_t unit) const { return rank_ * shards_[unit].count; }
  /// How many elements of the unit's shard are not padding.
  std::int64_t real_count(std::size_t unit) const;

  /// Returns the part of an own range that is the unit's shard.
  Tensor of_own(const Tensor& own, std::size_t unit) const;
  /// Returns the part of a whole range that is the unit with its padding.
  Tensor of_whole(const Tensor& whole, std::size_t unit) const;
  /// Returns the part of one padded unit that is this rank's shard.
  Tensor of_unit(const Tensor& padded, std::size_t unit) const;

  /// Which parameters of the model an own range holds.
  ParameterMap parameter_map() const;

 private:
  struct Shard {
    std::int64_t begin, count;  // in own ranges
  };

  const Model& model_;
  int rank_, ranks_;
  std::vector<Shard> shards_;
  std::int64_t total_ = 0;
};

}  // namespace ringside::peer
