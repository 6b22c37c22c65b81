// UnshardedUnits: FSDP units whose parameters are whole on this rank while they are needed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/base/traffic.h"
#include "core/scheme/rank_context.h"
#include "peer/fsdp/shard_carrier.h"

namespace ringside::peer {

/// Gathers FSDP units from the shards of all ranks of a group, and binds lenders. If this rank
/// keeps only shards, a gathered FSDP unit lies in memory of kind communication until it is freed.
/// If it keeps whole parameters, FSDP units are gathered in place, once after every update of the
/// shards. Parameters that the ranks share are not gathered: units read the shards of all ranks
/// where they are, and an FSDP unit counts as gathered from begin() to free(). Shards that are kept
/// on the host are copied to the device first (kind communication, until the FSDP unit is
/// gathered). For one thread; all ranks ask for the same units in the same order.
class UnshardedUnits {
 public:
  /// `carrier` is null if the group is this rank alone: then nothing is gathered, and `parameters`
  /// are whole or on the host. `update` returns when this rank's shard of an FSDP unit has the
  /// values of its last update; may block. All arguments outlive this object.
  UnshardedUnits(const RankContext& context, Model& model, const Shards& shards,
                 const ShardedStorage& parameters, ShardCarrier* carrier,
                 std::function<void(std::size_t fsdp_unit)> update);

  /// Begins to copy the FSDP unit's shard to the device if it is on the host, unless the FSDP unit
  /// has been gathered already. Blocks until the shard is updated.
  void prepare(std::size_t fsdp_unit);
  /// Begins to gather the FSDP unit, unless it has been gathered already; blocks only until the
  /// shard is here.
  void begin(std::size_t fsdp_unit);
  /// Returns the unit's parameters; waits until their FSDP unit is gathered.
  Tensor get(std::size_t unit);
  /// Does what get() does, but first gathers and binds the unit's lender, if there is one: the
  /// other unit whose parameters this unit reads (Unit::lender).
  Tensor get_with_lender(std::size_t unit);
  /// Unbinds the FSDP unit's units; releases their parameters unless this rank keeps whole ones.
  void free(std::size_t fsdp_unit);

  /// Notes that the optimizer has all shards. Every FSDP unit must have been freed. If this rank
  /// keeps whole parameters, they are gathered again, in the order in which forward needs them: at
  /// once, or, if the host updates them, each FSDP unit by its begin(), so that forward goes on
  /// while later FSDP units are updated.
  void refresh();
  /// Waits until no FSDP unit is on its way.
  void drain();

  /// The bytes that units have read in place from other ranks' shards: as many as gathering them
  /// would move.
  const Traffic& traffic() const { return read_; }

  /// The FSDP unit of the unit's lender; none if that is the unit's own FSDP unit, or if the unit
  /// has no lender, as most units.
  std::optional<std::size_t> lender_fsdp_unit(std::size_t unit) const;

 private:
  struct Entry {
    Tensor padded;
    WorkPtr work;  // while the parameters are on their way
  };
  /// A shard on its way from the host.
  struct Copied {
    Tensor shard;
    HostTaskPtr copy;
  };

  void gather(std::size_t fsdp_unit, Entry& entry);
  /// Returns this rank's shard of the FSDP unit on the device, with the values of its last update.
  Tensor shard(std::size_t fsdp_unit);
  const Tensor& wait(std::size_t fsdp_unit);

  const RankContext& context_;
  Model& model_;
  const Shards& shards_;
  const ShardedStorage& parameters_;
  ShardCarrier* carrier_;
  std::function<void(std::size_t)> update_;
  std::vector<std::optional<std::size_t>> lenders_;  // indexed by unit
  std::map<std::size_t, Copied> copied_;
  std::map<std::size_t, Entry> gathered_;  // all FSDP units if parameters are whole
  std::set<std::size_t>
      old_;  // FSDP units of whole parameters that are gathered when they are needed
  Traffic read_;
};

}  // namespace ringside::peer
