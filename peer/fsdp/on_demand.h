// Sharding without collectives: a rank reads shards from the memory of their owners, by one-sided
// operations.
#pragma once

#include <memory>

#include "core/scheme/rank_context.h"
#include "peer/fsdp/shard_carrier.h"

namespace ringside::peer {

/// On-demand communication (Wan et al., ICLR 2026): a rank that needs a unit reads the unit's
/// shards from their owners' memory, and writes its gradient into a buffer of its own at each
/// owner, by the one-sided operations of Window. Owners take no part in either. After the last
/// micro-batch all ranks meet: each adds up the gradients for its shard, in rank order, and updates
/// the shard; then all go on. A rank with longer sequences thus delays the others at the end of a
/// step, and not at each unit.
///
/// With N ranks and a model of P bytes a rank keeps (N-1)/N P bytes of buffers for the gradients of
/// other ranks (MemoryKind::communication). With A micro-batches it reads (N-1)/N P bytes for each
/// gathering, and sends (N-1)/N P bytes for each gradient that it brings: together as many as the
/// collectives of full_shard. Since a rank's micro-batches are added up at the owner before ranks
/// are, the order of sums is that of `single` whether gradients are brought once a step
/// (train.reduce "last") or in every micro-batch.
///
/// If the ranks share the parameters, units compute with the owners' shards where they are, and the
/// bytes that gather() would have read count as read (UnshardedUnits::traffic).
///
/// Collective: blocks until all ranks of the group have called it. `parameters` are shards, or
/// shared. All arguments outlive the carrier.
std::unique_ptr<ShardCarrier> make_on_demand_carrier(const RankContext& context,
                                                     Communicator& group, const Shards& shards,
                                                     const ShardedStorage& parameters);

}  // namespace ringside::peer
