// The link between a worker's replica and the servers that keep the master values.
#pragma once

#include <map>
#include <vector>

#include "core/scheme/replica.h"
#include "core/scheme/scheme.h"
#include "ps/protocol/chunk_codes.h"
#include "ps/protocol/client.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

/// Moves gradients of the replica to the servers, and values of the servers into the replica, chunk
/// by chunk: those chunks of a unit that this worker pushes (Chunk::is_of()). Chunks that wait are
/// sent in the order in which the next forward needs them, those of the first unit first. All calls
/// go through the client and throw its errors; only settle() and wait_for() block.
class ReplicaLink {
 public:
  /// All arguments but `chunks`, which are those of the servers, and `compression` outlive the
  /// link.
  ReplicaLink(const Model& model, Replica& replica, const RankContext& context, Client& client,
              std::vector<Chunk> chunks, const ChunkCompression& compression);

  /// Sends the step's only or last gradient of the unit. The gradient must not change until the
  /// values of the step have arrived.
  void push(std::size_t unit, std::int64_t step);
  /// Does the same as push() and asks for the updated values, which are written to the replica when
  /// they arrive.
  void push_pull(std::size_t unit, std::int64_t step);
  /// Sends the unit's gradient of an earlier micro-batch, which must not change until wait_for()
  /// has returned.
  void push_part(std::size_t unit, std::int64_t step, std::int64_t micro_batch);
  /// Runs the rounds of sums that the servers' optimizers need before they update: adds up the
  /// servers' parts in the order of the servers. Returns false if the servers do not update because
  /// gradients are not finite. Blocks until all workers have pushed.
  bool settle(const StepInfo& info);
  /// Asks for the values after `steps` updates, all units in order; they are written to the replica
  /// when they arrive.
  void pull(std::int64_t steps);
  /// Asks for the values themselves with which a process begins that has taken a worker's seat,
  /// once a worker that has done `steps` steps may read them. Codes of what it reads follow them.
  void read_anew(std::int64_t steps);
  /// Asks for the newest values themselves, whatever is compressed: no part of a step.
  void peek();

  /// Handles the replies that have arrived. Then blocks until no reply about the unit is missing. A
  /// reply brings values, or confirms that a gradient of push_part() has been added up.
  void wait_for(std::size_t unit);

  /// Whether wait_for() would return at once. Handles no replies.
  bool has_come(std::size_t unit) const { return missing_[unit] == 0; }

  /// The newest version of the values that have arrived, over all ranges.
  std::int64_t newest_version() const { return newest_version_; }

  /// How a checkpoint has the values that this worker has of the servers': not at all where they
  /// are the servers' own; else as values of all workers, or of this one, which servers may hold
  /// too.
  struct OwnValues {
    bool shown = false, of_all_workers = false, on_servers = false;
  };
  /// Visits what this worker keeps of its codes, and its values as said.
  void visit_state(const OwnValues& own, const StateVisitor& visit);

  /// Calls `visit` with the replica's values of every unit.
  void visit(const SyncScheme::ParameterVisitor& visit) const;

 private:
  Message request(Kind kind, const Chunk& chunk, std::int64_t step, std::int64_t micro_batch);
  /// Makes a message about the sums of a round. It brings `totals` to the server; they are empty in
  /// a request for round 0.
  Message about_sums(Kind kind, const StepInfo& info, int round, const std::vector<double>& totals);
  /// Returns the totals of a round; `before` are the totals of the previous round.
  std::vector<double> total(const StepInfo& info, int round, const std::vector<double>& before);
  void ask_values(Kind kind, const Chunk& chunk, std::int64_t step);
  void take(const Chunk& chunk, const Message& reply);
  void take_code(const Chunk& chunk, const Tensor& code, const Tensor& values);
  void visit_values(const Chunk& chunk, StateRange like, const StateVisitor& visit);
  bool pulls_codes(Kind kind) const { return !pulls_.empty() && kind != Kind::peek; }
  void take_values(const Chunk& chunk, const Message& reply);
  static void check_frame(const Chunk& chunk, const Message& reply, const FrameShape& frame);
  void note_taken(const Chunk& chunk, const Message& reply);

  const Model& model_;
  Replica& replica_;
  Device& device_;
  Timeline& timeline_;
  Client& client_;
  int workers_;
  std::vector<Chunk> chunks_;  // those of this worker
  std::vector<int> servers_;   // servers that have chunks of any worker
  int rounds_;
  bool skips_;                // steps whose gradients are not finite
  std::int64_t last_push_;    // the number of a step's last push
  std::vector<int> missing_;  // number of missing replies, by unit
  std::int64_t newest_version_ = 0;
  /// By the first element of a chunk; empty: not compressed.
  std::map<std::int64_t, ChunkCodes> pushes_, pulls_;
  std::map<std::int64_t, Tensor> has_;  // fp32 values that codes have led to
};

}  // namespace ringside::ps
