// The parameters and running statistics of the whole model, where the ranks of a pipeline have a
// part of it each.
#pragma once

#include <cstddef>
#include <functional>

#include "core/scheme/scheme.h"

namespace ringside {

/// Calls `visit` with the values that SyncScheme::visit_parameters() shows, in the order of the
/// whole model: on the first rank of a pipeline with those of all stages, piece by piece, each of
/// at most 2^18 elements; on the other ranks with nothing. Without a pipeline with those of every
/// unit at once. `unit` is the unit's number in the whole model, `begin` the place of the values in
/// its range. Each rank but the first sends its parameters once. In a pipeline of devices without
/// values `visit` is not called. Collective; blocks.
using WholeModelVisitor =
    std::function<void(int replica, std::size_t unit, std::int64_t begin, const Tensor& values)>;
void visit_whole_model(const RankContext& context, const Model& model, SyncScheme& scheme,
                       const WholeModelVisitor& visit);

/// Fills the running statistics of `whole`, on the first rank of a pipeline, with those of the
/// units of all stages; the other ranks give null. Collective among the stages; blocks.
void gather_statistics(const RankContext& context, const Model& part, Model* whole);

}  // namespace ringside
