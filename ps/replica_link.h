// What ties a worker's replica to the servers that keep the master values.
#pragma once

#include <vector>

#include "core/replica.h"
#include "ps/client.h"
#include "ps/partition.h"

namespace ringside::ps {

/// Moves gradients of the replica to the servers and their values into it, chunk by chunk. All is
/// asked of the client, whose errors these calls throw; only wait_for() and drain() block.
class ReplicaLink {
 public:
  /// Everything outlives it.
  ReplicaLink(const Model& model, Replica& replica, Device& device, Client& client, int servers);

  /// Sends the gradients of one unit, which must not change until its next values are there.
  void push(std::size_t unit, std::int64_t step);
  /// The same, and has the updated values written to the replica when they come.
  void push_pull(std::size_t unit, std::int64_t step);
  /// Has the values after `steps` updates written to the replica, all units in order.
  void pull(std::int64_t steps);

  /// Takes what has come; then, if values of the unit are still missing, waits for them.
  void wait_for(std::size_t unit);

  /// Calls `visit` with the replica's values of every unit.
  void visit(const SyncScheme::ParameterVisitor& visit) const;

 private:
  Message request(Kind kind, const Chunk& chunk, std::int64_t step) const;
  void ask_values(Kind kind, const Chunk& chunk, std::int64_t step);
  void take(const Chunk& chunk, const Message& reply);

  const Model& model_;
  Replica& replica_;
  Device& device_;
  Client& client_;
  std::vector<Chunk> chunks_;
  std::vector<int> missing_;  // chunks asked for, by unit
};

}  // namespace ringside::ps
