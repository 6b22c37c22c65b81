// A whole copy of the model on one rank.
#pragma once

#include "core/models/model.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// Parameters and gradients of all units, each in one contiguous range in unit order. The gradients
/// of this rank's micro-batches are added up in order. Schemes that keep a full copy (all but fsdp)
/// pass their backward hooks on to the replica.
///
/// After the first micro-batch, a unit's gradients are computed in a range of their own, as large
/// as the largest unit, and then added: the bits of the sum must not depend on which rank computed
/// the later micro-batch.
class Replica {
 public:
  /// Allocates and initialises the parameters, and binds the units to them. The model and the
  /// context must outlive the replica.
  Replica(Model& model, const RankContext& context);

  /// The whole model's values, or the part of one unit.
  const Tensor& parameters() const { return parameters_; }
  const Tensor& gradients() const { return gradients_; }
  Tensor parameters(std::size_t unit) const { return range(parameters_, unit); }
  Tensor gradients(std::size_t unit) const { return range(gradients_, unit); }

  /// before_backward() binds the unit's gradients for one backward, and in the first micro-batch
  /// those of the unit's lender; after_backward() adds them up.
  /// After the last micro-batch's after_backward() the unit's gradients are complete.
  void before_backward(std::size_t unit, const Pass& pass);
  void after_backward(std::size_t unit, const Pass& pass);

 private:
  Tensor range(const Tensor& all, std::size_t unit) const;

  Model& model_;
  const RankContext& context_;
  Tensor parameters_, gradients_;
  Tensor scratch_;  // as large as the largest unit; made for the second micro-batch
};

}  // namespace ringside
