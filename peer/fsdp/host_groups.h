// HostGroups: the ranks of a group that shards a model, host by host.
#pragma once

#include <memory>

#include "core/comm/communicator.h"

namespace ringside::peer {

/// N ranks of a group in hosts of L consecutive ranks each: the ranks of this rank's host, and
/// those with its number on all hosts. The hosts are what the caller takes for some: no rank looks
/// where others live.
class HostGroups {
 public:
  /// L divides the number of ranks. If it is 1, or all ranks, there is one host. Collective: blocks
  /// until all ranks have called it. The group outlives this object.
  HostGroups(Communicator& group, int host_ranks)
      : group_(group),
        host_ranks_(host_ranks == 1 ? group.size() : host_ranks),
        own_within_(several() ? group.split(group.rank() / host_ranks_, group.rank()) : nullptr),
        across_(several() ? group.split(group.rank() % host_ranks_, group.rank()) : nullptr) {}

  Communicator& group() const { return group_; }
  int hosts() const { return group_.size() / host_ranks_; }
  /// L, and which of the L ranks of its host this rank is.
  int host_ranks() const { return host_ranks_; }
  int place() const { return group_.rank() % host_ranks_; }
  /// This host's ranks; with one host the whole group.
  Communicator& within() const { return own_within_ ? *own_within_ : group_; }
  /// The ranks in this place of all hosts; null if there is one host.
  Communicator* across() const { return across_.get(); }

  /// What this rank has moved in both; the group counts for itself.
  Traffic traffic() const {
    return several() ? own_within_->traffic() + across_->traffic() : Traffic{};
  }

 private:
  bool several() const { return hosts() > 1; }

  Communicator& group_;
  int host_ranks_;
  std::unique_ptr<Communicator> own_within_, across_;
};

}  // namespace ringside::peer
