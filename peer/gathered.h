// Units whose parameters are whole on this rank for as long as they are needed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/comm/communicator.h"
#include "core/scheme/rank_context.h"
#include "peer/shards.h"

namespace ringside::peer {

/// Gathers units from the shards of all ranks into memory of kind communication, and binds the
/// units' parameters. For one thread; all ranks ask for the same units in the same order.
class GatheredUnits {
 public:
  /// `own` are this rank's shards of the parameters. All arguments outlive this object.
  GatheredUnits(const RankContext& context, Model& model, const Shards& shards, const Tensor& own,
                Communicator& communicator);

  /// Begins to gather the unit, unless it has been gathered already; does not block.
  void begin(std::size_t unit);
  /// Returns the unit's parameters without the padding; waits until they are gathered.
  Tensor get(std::size_t unit);
  /// Does what get() does, but first gathers and binds the unit's lender, if there is one: the
  /// other unit whose parameters this unit reads (Unit::lender).
  Tensor get_with_lender(std::size_t unit);
  /// Unbinds the unit and lets go of its parameters.
  void free(std::size_t unit);

  /// The unit's lender; most units have none.
  std::optional<std::size_t> lender(std::size_t unit) const { return lenders_[unit]; }

 private:
  struct Gathered {
    Tensor padded;
    WorkPtr work;  // while the parameters are on their way
  };

  const RankContext& context_;
  Model& model_;
  const Shards& shards_;
  Tensor own_;
  Communicator& communicator_;
  std::vector<std::optional<std::size_t>> lenders_;  // indexed by unit
  std::map<std::size_t, Gathered> gathered_;
};

}  // namespace ringside::peer
