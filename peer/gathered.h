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

/// All-gathers units out of the shards of all ranks, into memory of kind communication, and binds
/// their parameters. For one thread; all ranks ask for the same units in the same order.
class GatheredUnits {
 public:
  /// `own`: this rank's shards of the parameters. Everything outlives it.
  GatheredUnits(const RankContext& context, Model& model, const Shards& shards, const Tensor& own,
                Communicator& communicator);

  /// Has the unit gathered, unless it is already; does not block.
  void begin(std::size_t unit);
  /// The unit's parameters without the padding; waits for them.
  Tensor get(std::size_t unit);
  /// The same; the unit whose parameters this one reads as well (Unit::lender) is whole and bound.
  Tensor get_with_lender(std::size_t unit);
  /// Unbinds the unit and lets go of its parameters.
  void free(std::size_t unit);

  /// The unit whose parameters this one reads as well; none for most.
  std::optional<std::size_t> lender(std::size_t unit) const { return lenders_[unit]; }

 private:
  struct Gathered {
    Tensor padded;
    WorkPtr work;  // while they are on their way
  };

  const RankContext& context_;
  Model& model_;
  const Shards& shards_;
  Tensor own_;
  Communicator& communicator_;
  std::vector<std::optional<std::size_t>> lenders_;  // by unit
  std::map<std::size_t, Gathered> gathered_;
};

}  // namespace ringside::peer
