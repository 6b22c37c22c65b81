// Transport of shards within a group of ranks, by collectives or on demand.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/base/traffic.h"
#include "core/comm/communicator.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/state.h"
#include "peer/fsdp/degree.h"
#include "peer/fsdp/sharded_storage.h"

namespace ringside::peer {

/// Brings the shards of parameters to the rank that computes with them, and gradients to the ranks
/// that keep their sums (the owners of the shards). For one thread; all ranks of the group do the
/// same. A Work must not outlive the carrier.
class ShardCarrier {
 public:
  virtual ~ShardCarrier() = default;

  /// Called before the first gathering of a training step; evaluations have gathered before it.
  virtual void begin_step() {}
  /// Begins to fill `padded` with the FSDP unit's shards of all ranks; `shard` is this rank's, on
  /// its device. Does not block. After the wait for it the caller calls gathered(), after which
  /// `padded` has its values.
  virtual WorkPtr gather(std::size_t fsdp_unit, const Tensor& shard, const Tensor& padded) = 0;
  virtual void gathered(std::size_t fsdp_unit, const Tensor& padded) {
    static_cast<void>(fsdp_unit), static_cast<void>(padded);
  }
  /// Whether gather() brings the values of parameters as they are, or, as at first, those that
  /// units compute with, which may have lost some bits on their way.
  virtual void gather_exactly(bool exactly) { static_cast<void>(exactly); }

  /// Begins to bring a whole gradient of an FSDP unit, or, in collectives, of a bucket that begins
  /// with the FSDP unit, to the owners of its shards; records and traces show the `name`. Does not
  /// block. `part` receives this rank's part of the sum over ranks; it may be a part of `gradient`.
  /// If ranks meet once a step, `part` is this rank's sum over its micro-batches so far. `later`
  /// then says that the gradient has to be added to `part`, and at other owners to the values that
  /// earlier micro-batches of this rank have brought there.
  virtual WorkPtr reduce(std::size_t fsdp_unit, const std::string& name, const Tensor& gradient,
                         const Tensor& part, bool later) = 0;
  /// The exchanges that a reduction takes, one after the other. After the wait for one the caller
  /// begins the next by go_on(): `round` 1 follows reduce(), and `fsdp_unit` is that of reduce().
  /// Null work, of reduce() too: this exchange moves nothing.
  virtual int rounds() const { return 1; }
  virtual WorkPtr go_on(std::size_t fsdp_unit, int round) {
    static_cast<void>(fsdp_unit), static_cast<void>(round);
    return nullptr;
  }
  /// Called after the last wait: `part` then has its values.
  virtual void reduced(std::size_t fsdp_unit, const Tensor& part) {
    static_cast<void>(fsdp_unit), static_cast<void>(part);
  }
  /// Whether reduce() gets a bucket as it lies in the model: its elements one after the other, with
  /// padding behind the last alone. The carrier may then overwrite them until reduced(). If not, a
  /// bucket is one owner's shards after the other's.
  virtual bool takes_whole() const { return false; }
  /// Whether a gradient of the same FSDP unit or bucket must be reduced() before its next one.
  virtual bool one_at_a_time() const { return false; }

  /// Whether ranks wait for each other only at the update of a step. Until meet() adds them up, an
  /// owner keeps the values of each rank in a place of their own.
  virtual bool meets_once() const { return false; }
  /// Before the update: blocks until the gradients of all ranks are here, and adds them up in
  /// `sums`. Every Work of this rank must have ended before the call.
  virtual void meet(const ShardedStorage& sums) { static_cast<void>(sums); }
  /// After the update, or after gathering without one: blocks until no rank reads this rank's old
  /// parameters, and all ranks have new ones.
  virtual void leave() {}

  /// Visits, between two steps, what the carrier keeps for later ones; by default nothing.
  virtual void visit_state(const StateVisitor& visit) { static_cast<void>(visit); }

  /// The names of gather() and reduce() in traces.
  virtual std::string_view gathers() const { return "all-gather"; }
  virtual std::string_view reduces() const { return "reduce-scatter"; }

  /// The bytes that the carrier itself has moved; those of collectives count in their
  /// communicators.
  virtual Traffic traffic() const { return {}; }
};

/// Makes a carrier that moves every FSDP unit by a collective of the group, in which ranks wait for
/// each other. If ranks share the parameters, gather() is not called, and leave() is a barrier. All
/// arguments outlive the carrier.
std::unique_ptr<ShardCarrier> make_collective_carrier(const RankContext& context,
                                                      Communicator& group, const Shards& shards,
                                                      const ShardedStorage& parameters);

/// Makes the carrier of the degree; null if `group` is null, because the group is this rank alone.
/// Collective: all ranks of the group call it. All arguments outlive the carrier.
std::unique_ptr<ShardCarrier> make_carrier(const RankContext& context, const Degree& degree,
                                           Communicator* group, const Shards& shards,
                                           const ShardedStorage& parameters);

}  // namespace ringside::peer
