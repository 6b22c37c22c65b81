// Units whose parameters are whole on this rank for as long as they are needed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/comm/communicator.h"
#include "core/scheme/rank_context.h"
#include "peer/kept.h"

namespace ringside::peer {

/// Gathers units from the shards of all ranks of a group, and binds the units' parameters. If this
/// rank keeps only shards, a gathered unit lies in memory of kind communication until it is freed.
/// If it keeps whole parameters, units are gathered in place, once after every update of the
/// shards. For one thread; all ranks ask for the same units in the same order.
class GatheredUnits {
 public:
  /// `group` is null if the group is this rank alone: then nothing is gathered, and `parameters`
  /// are whole. All arguments outlive this object.
  GatheredUnits(const RankContext& context, Model& model, const Shards& shards,
                const Kept& parameters, Communicator* group);

  /// Begins to gather the unit, unless it has been gathered already; does not block.
  void begin(std::size_t unit);
  /// Returns the unit's parameters without the padding; waits until they are gathered.
  Tensor get(std::size_t unit);
  /// Does what get() does, but first gathers and binds the unit's lender, if there is one: the
  /// other unit whose parameters this unit reads (Unit::lender).
  Tensor get_with_lender(std::size_t unit);
  /// Unbinds the unit's gradients; lets go of the unit's parameters if this rank keeps only shards.
  void free(std::size_t unit);

  /// Says that all shards have been updated; every unit has been freed. Begins to gather whole
  /// parameters, the unit first that forward needs first; does not block.
  void refresh();
  /// Waits until no unit is on its way.
  void drain();

  /// The unit's lender; most units have none.
  std::optional<std::size_t> lender(std::size_t unit) const { return lenders_[unit]; }

 private:
  struct Gathered {
    Tensor padded;
    WorkPtr work;  // while the parameters are on their way
  };

  void gather(std::size_t unit, Gathered& entry);

  const RankContext& context_;
  Model& model_;
  const Shards& shards_;
  const Kept& parameters_;
  Communicator* group_;
  std::vector<std::optional<std::size_t>> lenders_;  // indexed by unit
  std::map<std::size_t, Gathered> gathered_;         // all units if parameters are whole
};

}  // namespace ringside::peer
