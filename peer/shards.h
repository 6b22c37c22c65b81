// Shards: which part of every unit a rank keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"

namespace ringside::peer {

/// Every unit's range is padded with zeros to as many equal shards as there are ranks; rank r keeps
/// the r-th of each. A rank's shards stand one after the other, in unit order, in ranges of its own
/// (of parameters, gradients, optimizer state): "own" below. Whole units with their padding stand
/// one after the other in "whole" ranges, which have ranks times as many elements.
class Shards {
 public:
  /// The model outlives it.
  Shards(const Model& model, int rank, int ranks);

  std::size_t units() const { return shards_.size(); }
  /// Elements of an own range, and of a whole one.
  std::int64_t own_count() const { return total_; }
  std::int64_t whole_count() const { return total_ * ranks_; }
  /// Elements of the unit with its padding.
  std::int64_t padded_count(std::size_t unit) const { return shards_[unit].count * ranks_; }
  /// Where the unit's shard begins in an own range.
  std::int64_t begin(std::size_t unit) const { return shards_[unit].begin; }

  /// The unit's shard, of an own range.
  Tensor of_own(const Tensor& own, std::size_t unit) const;
  /// The unit with its padding, of a whole range.
  Tensor of_whole(const Tensor& whole, std::size_t unit) const;
  /// This rank's shard, of one unit with its padding.
  Tensor of_unit(const Tensor& padded, std::size_t unit) const;

  /// Writes the initial values of this rank's shards, and the zeros of the padding.
  void initialise(const RankContext& context, const Tensor& own) const;
  /// What an own range holds of the model.
  ParameterMap parameter_map() const;

 private:
  struct Shard {
    std::int64_t begin, count;  // in own ranges
  };
  /// Where this rank's shard begins in the unit, and how many of its elements are no padding.
  std::int64_t begin_in_unit(std::size_t unit) const { return rank_ * shards_[unit].count; }
  std::int64_t real_count(std::size_t unit) const;

  const Model& model_;
  int rank_, ranks_;
  std::vector<Shard> shards_;
  std::int64_t total_ = 0;
};

}  // namespace ringside::peer
