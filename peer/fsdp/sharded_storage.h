// ShardedStorage: a rank's part of a flat array with one element for each parameter of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"
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

  /// Which parameters of the model an own range holds.
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

/// Parameters or gradients of the model, in one flat tensor: a whole range of `shards`, or only
/// this rank's shards, as an own range. Either way this rank's shard of an FSDP unit is a view of
/// the tensor. A whole range may be shared: then all ranks have one range together, and each rank
/// keeps its own shards in it.
class ShardedStorage {
 public:
  /// The values are uninitialised. They lie on the device, or in the memory of `host` if it is not
  /// null. Context, shards and host outlive this object.
  ShardedStorage(const RankContext& context, const Shards& shards, bool whole, MemoryKind kind,
                 DType dtype, HostSide* host = nullptr);

  /// `shared` is a whole range of Communicator::share().
  ShardedStorage(const RankContext& context, const Shards& shards, const Tensor& shared);

  /// Whether this rank has a whole range of its own.
  bool whole() const { return extent_ == Extent::whole; }
  /// Whether the ranks of the group have one whole range together.
  bool shared() const { return extent_ == Extent::shared; }
  HostSide* host() const { return host_; }
  const Tensor& values() const { return values_; }
  /// The FSDP unit with its padding; only if whole() or shared().
  Tensor fsdp_unit(std::size_t b) const { return shards_.of_whole(values_, b); }
  /// This rank's shard of the FSDP unit.
  Tensor shard(std::size_t b) const;
  /// Whether the shards of all FSDP units lie one after the other in values(), as in an own range.
  bool is_own_range() const { return extent_ == Extent::shards || shards_.ranks() == 1; }
  /// All shards as an own range: values(), or a copy of kind workspace. The copy is uninitialised,
  /// and takes no memory of the system, unless `copies_values`.
  Tensor own_range(bool copies_values) const;

  /// Writes the initial values of parameters, and zeros into the padding; into a shared range, of
  /// this rank's shards alone. Values for the host are made on the device, one FSDP unit after the
  /// other.
  void initialise() const;

 private:
  enum class Extent : std::uint8_t { shards, whole, shared };

  const RankContext& context_;
  const Shards& shards_;
  Extent extent_;
  HostSide* host_ = nullptr;
  Tensor values_;
};

}  // namespace ringside::peer
