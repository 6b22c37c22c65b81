// The rendezvous of a group's ranks before NCCL knows them.
#pragma once

#include <nccl.h>

#include <optional>
#include <string>

#include "core/comm/communicator.h"
#include "core/comm/store.h"

namespace ringside::peer {

struct NcclRank : Group {
  std::string place{};  // errors begin with it: "ddp: rank 1 of 4"
};
/// The caller's rank in `group`, with the place that errors of this group begin with.
NcclRank nccl_rank(const Group& group);

/// Records in the store that this rank has arrived; rank 0 also makes the group's id and stores it.
void arrive(Store& store, const NcclRank& self);
/// Returns the group's id, or none before rank 0 has arrived. Does not block.
std::optional<ncclUniqueId> find_id(Store& store, const NcclRank& self);
/// Names the ranks that have not arrived: "rank 2", "ranks 2, 3"; empty if all have. Blocks for at
/// most about 0.2 s.
std::string who_is_missing(Store& store, const NcclRank& self);

}  // namespace ringside::peer
