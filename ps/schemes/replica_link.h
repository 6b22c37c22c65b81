// What ties a worker's replica to the servers that keep the master values.
#pragma once

#include <vector>

#include "core/scheme/replica.h"
#include "core/scheme/scheme.h"
#include "ps/protocol/client.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

/// Moves gradients of the replica to the servers and their values into it, chunk by chunk. All is
/// asked of the client, whose errors these calls throw; only wait_for() and drain() block.
class ReplicaLink {
 public:
  /// Everything outlives it.
  ReplicaLink(const Model& model, Replica& replica, Device& device, Client& client,
              const RunPlan& plan);

  /// Sends the gradients of one unit, the only ones or the last of the step, which must not change
  /// until the step's values are there.
  void push(std::size_t unit, std::int64_t step);
  /// The same, and has the updated values written to the replica when they come.
  void push_pull(std::size_t unit, std::int64_t step);
  /// Sends those of an earlier micro-batch, which must not change until wait_for() has returned.
  void push_part(std::size_t unit, std::int64_t step, std::int64_t micro_batch);
  /// The rounds of sums that the servers' optimizers want before they update: adds up, in the order
  /// of the servers, what each of them measures. False where they will not update because gradients
  /// are not finite. Blocks until all workers have pushed.
  bool settle(const StepInfo& info);
  /// Has the values after `steps` updates written to the replica, all units in order.
  void pull(std::int64_t steps);

  /// Takes what has come; then, if values of the unit, or words that its gradients are there, are
  /// still missing, waits for them.
  void wait_for(std::size_t unit);

  /// Calls `visit` with the replica's values of every unit.
  void visit(const SyncScheme::ParameterVisitor& visit) const;

 private:
  Message request(Kind kind, const Chunk& chunk, std::int64_t step, std::int64_t micro_batch) const;
  /// About the totals of a round; none before round 0.
  Message about_sums(Kind kind, const StepInfo& info, int round, const std::vector<double>& totals);
  /// The totals of a round; `before`: of the round before it.
  std::vector<double> total(const StepInfo& info, int round, const std::vector<double>& before);
  void ask_values(Kind kind, const Chunk& chunk, std::int64_t step);
  void take(const Chunk& chunk, const Message& reply);

  const Model& model_;
  Replica& replica_;
  Device& device_;
  Client& client_;
  std::vector<Chunk> chunks_;
  std::vector<int> servers_;  // that have chunks
  int rounds_;
  std::int64_t last_push_;    // number of the last push of a step
  std::vector<int> missing_;  // chunks asked for, by unit
};

}  // namespace ringside::ps
