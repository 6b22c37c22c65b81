// Mesh: the workers of a run in groups that shard the model, and in replicas across these groups.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "core/scheme/rank_context.h"

namespace ringside::peer {

/// W workers in groups of G consecutive ones. The workers of a group keep one shard each. The
/// workers with the same shard, one in each of the W / G groups, are replicas of each other.
class Mesh {
 public:
  /// `group` divides the number of workers. Collective: blocks until all workers have called it.
  Mesh(const RankContext& context, int group, Algorithm algorithm);

  /// The number of shards, and the number of the one that this worker keeps.
  int shards() const { return group_; }
  int shard() const { return world_->rank() % group_; }

  Communicator& world() const { return *world_; }
  /// This worker's group; null if that is the worker alone.
  Communicator* within() const { return within_; }
  /// The workers with this worker's shard; null if that is the worker alone.
  Communicator* across() const { return across_; }

  /// The traffic of this worker in all of them.
  Traffic traffic() const;

 private:
  int group_;
  std::unique_ptr<Communicator> world_, own_within_, own_across_;  // the latter two may be null
  Communicator *within_ = nullptr, *across_ = nullptr;
};

}  // namespace ringside::peer
