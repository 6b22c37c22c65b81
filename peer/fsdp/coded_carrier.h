// Transport of shards in fewer bytes: compressed gradients, and the three ideas of ZeRO++.
#pragma once

#include <memory>

#include "core/compress/compression.h"
#include "peer/fsdp/gradient_buckets.h"
#include "peer/fsdp/shard_carrier.h"

namespace ringside::peer {

/// What a carrier sends in fewer bytes than values have, for N ranks.
struct Codes {
  /// Compressors of gradients; none: gradients are summed as they are. One that is
  /// CompressorInfo::in_parts sends shards (CodedReduction), any other one whole buckets
  /// (WholeReduction).
  CompressionOptions gradients{};
  /// Whether gradients are summed within hosts first (CodedReduction).
  bool by_hosts = false;  // on several hosts of `host_ranks`
  /// qwZ: whether parameters are gathered in 8 bits (WeightCodes), in blocks of so many.
  bool weights = false;
  std::int64_t block = 256;
  /// hpZ, the consecutive ranks of a host, L; 1: the group is not divided.
  int host_ranks = 1;

  /// Whether parameters have to be gathered, where they might be read in place otherwise.
  bool gathers() const { return weights || host_ranks > 1; }
  bool any() const { return gathers() || compresses(gradients); }
};

/// Moves shards by collectives of the group (make_collective_carrier), with these codes.
///
/// qwZ: a gathering sends (N-1)/N (n + 4 n / block) bytes for n parameters. All ranks, the owner
/// too, compute with what the codes stand for; updates are made of the values that owners keep.
///
/// hpZ (Wang et al., ICLR 2024, section 3.2): after the first gathering of a unit in a step every
/// rank keeps 1/L of the gathered unit besides its shard (MemoryKind::communication), so that
/// the ranks of a host have all of it. Later gatherings of the step, such as that of backward,
/// send (L-1)/L of the unit within the host, and nothing to other hosts. (In the paper
/// the forwards of later micro-batches gather from all ranks again.)
///
/// Collective: all ranks of the group call it. All arguments outlive the carrier.
std::unique_ptr<ShardCarrier> make_coded_carrier(const RankContext& context, Communicator& group,
                                                 const Shards& shards,
                                                 const GradientBuckets& buckets,
                                                 const ShardedStorage& parameters,
                                                 const Codes& codes);

}  // namespace ringside::peer
