// ShardedStorage: a rank's part of one value for each parameter of the model.
#pragma once

#include "core/scheme/rank_context.h"
#include "peer/fsdp/shards.h"

namespace ringside::peer {

/// Parameters or gradients of the model, in one flat tensor: a whole range of `shards`, or only
/// this rank's shards, as an own range. Either way this rank's shard of an FSDP unit is a view of
/// it. A whole range may be shared: then there is one for all ranks, and each keeps its shards of
/// it.
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
