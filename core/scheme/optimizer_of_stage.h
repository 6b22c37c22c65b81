// The optimizer of one stage of a pipeline, whose sums are over all stages of the model.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// A decorator of the optimizer of this rank's parameters: Optimizer::settle() gets the totals of
/// its own stages, and settles `inner` with those over all ranks of the pipeline, in their order.
/// It is collective among them, and blocks until all have called it.
///
/// With pipeline.post_validation it goes ahead of the totals where it can (PostValidation). Until
/// they are here it then keeps what it has overwritten: the parameters and the state of every
/// element that it has updated, of MemoryKind::optimizer, as copies, because no update is undone
/// exactly by arithmetic. The gradients of the ranges that it has updated must stay as they are
/// until then. `inner` has one round of sums at most.
///
/// The context, which has a pipeline, outlives the optimizer.
std::unique_ptr<Optimizer> optimizer_of_stage(const RankContext& context,
                                              std::unique_ptr<Optimizer> inner);

}  // namespace ringside
