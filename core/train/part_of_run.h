// The run of all stages, for a rank of a pipeline whose scheme knows its own stages alone.
#pragma once

#include <span>

#include "core/models/model.h"
#include "core/scheme/scheme.h"

namespace ringside {

/// The rank in the run of all stages: its plan, its numbers, and the store that all ranks share.
/// Without a pipeline the context itself.
const RankContext& whole_run(const RankContext& context);

/// Whether this rank computes losses: in a pipeline, whether it has the last stage.
bool has_losses(const RankContext& context);
/// The worker, by its number in the whole run, that computes the losses of worker number `data` of
/// the data dimension.
int worker_with_losses(const RankContext& context, int data);

/// Replaces every value by its sum over the workers of all stages. Collective among all workers of
/// the run; blocks.
void sum_over_run(const RankContext& context, SyncScheme& scheme, std::span<double> values);

/// A visitor for SyncScheme::visit_state() that shows the state of this rank's part of the model to
/// `visit` as state of the whole model: a range of elements by their numbers there, stretch by
/// stretch; state that is not of elements (StateRange::of_elements) under a name with the rank's
/// place in the pipeline, as it has a meaning at the same place of the same mesh alone. Without a
/// pipeline `visit` itself. The arguments outlive the visitor.
StateVisitor in_whole_run(const RankContext& context, const Model& model, StateVisitor visit);

}  // namespace ringside
