// How the ranks of a group find each other before NCCL knows them.
#pragma once

#include <fmt/format.h>
#include <nccl.h>

#include <string>

#include "core/cluster/store.h"

namespace ringside::peer {

/// A group as its ranks speak of it.
struct GroupName {
  std::string name;
  int rank = 0, size = 1;

  /// "ddp: rank 1 of 4", where errors begin.
  std::string place() const { return fmt::format("{}: rank {} of {}", name, rank, size); }
};

/// The group's id, which rank 0 makes; blocks until it is there, and leaves word that this rank
/// came. Throws Error after `timeout_s`.
ncclUniqueId meet(Store& store, const GroupName& group, double timeout_s);

/// "rank 2", "ranks 2, 3": who has not called meet(); empty if all have. Blocks for a moment.
std::string who_is_missing(Store& store, const GroupName& group);

}  // namespace ringside::peer
