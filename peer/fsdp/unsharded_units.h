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

/// Gathers bundles of units from the shards of all ranks of a group, and binds lenders. If this
/// rank keeps only shards, a gathered bundle lies in memory of kind communication until it is
/// freed. If it keeps whole parameters, bundles are gathered in place, once after every update of
/// the shards. Parameters that the ranks share are not gathered: units read the shards of all ranks
/// where they are, and a bundle counts as gathered from begin() to free(). Shards that are kept on
/// the host are copied to the device first (kind communication, until the bundle is gathered). For
/// one thread; all ranks ask for the same units in the same order.
class GatheredUnits {
 public:
  /// `carrier` is null if the group is this rank alone: then nothing is gathered, and `parameters`
  /// are whole or on the host. `update` returns when this rank's shard of a bundle has the values
  /// of its last update; may block. All arguments outlive this object.
  GatheredUnits(const RankContext& context, Model& model, const Shards& shards,
                const ShardedStorage& parameters, ShardCarrier* carrier,
                std::function<void(std::size_t bundle)> update);

  /// Begins to copy the bundle's shard to the device if it is on the host, unless the bundle has
  /// been gathered already. Blocks until the shard is updated.
  void prepare(std::size_t bundle);
  /// Begins to gather the bundle, unless it has been gathered already; blocks only until the shard
  /// is here.
  void begin(std::size_t bundle);
  /// Returns the unit's parameters; waits until their bundle is gathered.
  Tensor get(std::size_t unit);
  /// Does what get() does, but first gathers and binds the unit's lender, if there is one: the
  /// other unit whose parameters this unit reads (Unit::lender).
  Tensor get_with_lender(std::size_t unit);
  /// Unbinds the bundle's units; lets go of their parameters if this rank keeps only shards.
  void free(std::size_t bundle);

  /// Says that all shards have been given to the optimizer; every bundle has been freed. Whole
  /// parameters of this rank alone are then gathered, the bundle first that forward needs first: at
  /// once, or, if the host updates them, each by its begin(). Forward then goes on while later
  /// bundles are updated.
  void refresh();
  /// Waits until no bundle is on its way.
  void drain();

  /// What units have read of other ranks' shards where they are: as much as gathering them moves.
  const Traffic& traffic() const { return read_; }

  /// The bundle of the unit's lender; none if that is the unit's own bundle, or if the unit has no
  /// lender, as most units.
  std::optional<std::size_t> lender_bundle(std::size_t unit) const;

 private:
  struct UnshardedUnits {
    Tensor padded;
    WorkPtr work;  // while the parameters are on their way
  };
  /// A shard on its way from the host.
  struct Copied {
    Tensor shard;
    HostTaskPtr copy;
  };

  void gather(std::size_t bundle, UnshardedUnits& entry);
  /// Returns this rank's shard of the bundle on the device, with the values of its last update.
  Tensor shard(std::size_t bundle);
  const Tensor& wait(std::size_t bundle);

  const RankContext& context_;
  Model& model_;
  const Shards& shards_;
  const ShardedStorage& parameters_;
  ShardCarrier* carrier_;
  std::function<void(std::size_t)> update_;
  std::vector<std::optional<std::size_t>> lenders_;  // indexed by unit
  std::map<std::size_t, Copied> copied_;
  std::map<std::size_t, UnshardedUnits> gathered_;  // all bundles if parameters are whole
  std::set<std::size_t> old_;  // bundles of whole parameters that are gathered when they are needed
  Traffic read_;
};

}  // namespace ringside::peer
