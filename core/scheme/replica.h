// A whole copy of the model on one rank.
#pragma once

#include "core/models/model.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// Parameters and gradients of all units, each in one contiguous range in unit order, with the
/// micro-batches of this rank added up in order. Schemes that keep a full copy (all but fsdp)
/// forward their backward hooks to it.
///
/// A gradient of a later micro-batch is computed apart, in a range of the size of the largest
/// unit, and then added: the bits of g0 + g1 must not depend on who computed g1.
class Replica {
 public:
  /// Allocates and initialises; binds the units' parameters. The model and context outlive it.
  Replica(Model& model, const RankContext& context);

  /// All of the model, and the unit's part of it.
  const Tensor& parameters() const { return parameters_; }
  const Tensor& gradients() const { return gradients_; }
  Tensor parameters(std::size_t unit) const { return range(parameters_, unit); }
  Tensor gradients(std::size_t unit) const { return range(gradients_, unit); }

  /// Binds the unit's gradients for one backward, and adds them up after it: after the last
  /// micro-batch's after_backward the unit's gradients are complete.
  void before_backward(std::size_t unit, const Pass& pass);
  void after_backward(std::size_t unit, const Pass& pass);

 private:
  Tensor range(const Tensor& all, std::size_t unit) const;

  Model& model_;
  const RankContext& context_;
  Tensor parameters_, gradients_;
  Tensor scratch_;  // of the largest unit, made when the first later micro-batch needs it
};

}  // namespace ringside
