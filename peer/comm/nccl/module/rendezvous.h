// How the ranks of a group find each other before NCCL knows them.
#pragma once

#include <nccl.h>

#include <optional>
#include <string>

#include "core/comm/communicator.h"
#include "core/comm/store.h"

namespace ringside::peer {

struct NcclRank : Group {
  std::string place{};  // where errors begin: "ddp: rank 1 of 4"
};
/// The place as it is for ranks of one group.
NcclRank nccl_rank(const Group& group);

/// Leaves word that this rank is here; rank 0 also makes the group's id and leaves that.
void arrive(Store& store, const NcclRank& self);
/// The id; none before rank 0 has arrived. Does not block.
std::optional<ncclUniqueId> find_id(Store& store, const NcclRank& self);
/// "rank 2", "ranks 2, 3": who has not arrived; empty if all have. Blocks for a moment.
std::string who_is_missing(Store& store, const NcclRank& self);

}  // namespace ringside::peer
