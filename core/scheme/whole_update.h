// The optimizer update of a whole model on one rank.
#pragma once

#include <memory>

#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/replica.h"
#include "core/scheme/scheme.h"

namespace ringside {

/// The optimizer of a replica. The rank has the gradients of all parameters, so sums over the whole
/// model need no other rank. For one thread.
class WholeUpdate {
 public:
  /// `total` are the gradients of the whole model that a step ends with. The rank stands for
  /// `workers` workers. All arguments outlive this object.
  WholeUpdate(const RankContext& context, const Model& model, const Replica& replica,
              const Tensor& total, std::int64_t workers);

  Optimizer& optimizer() const { return *optimizer_; }
  /// Elements [begin, begin + count) of the model, as the optimizer sees them.
  ParameterRange range(std::int64_t begin, std::int64_t count) const;
  ParameterRange range_of(std::size_t unit) const;

  /// Updates everything at once, after the rounds of sums. Returns false as Optimizer::settle().
  bool step(const StepInfo& info);
  /// Waits until the unit, or the whole model, has its updated values.
  void finish(std::size_t unit);
  void finish_all();
  /// Visits the state of the model; `holders` ranks have the same one, of which this is number
  /// `holder`. Then SyncScheme::restored().
  void visit_state(int holder, int holders, const StateVisitor& visit);
  void restored(std::int64_t skipped);
  /// Finishes the update and visits the parameters of all units, as SyncScheme says.
  void visit(const SyncScheme::ParameterVisitor& visit);

 private:
  const RankContext& context_;
  const Model& model_;
  const Replica& replica_;
  Tensor total_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace ringside
