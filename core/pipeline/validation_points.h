// Validation points: where the ranks of a pipeline learn whether the step before was right.
#pragma once

#include <cstddef>
#include <vector>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// For every rank, the index of the action before which it validates the optimizer's update of the
/// step before (Qi et al. 2024, section 4: the update goes ahead of the sums over all stages, which
/// come while the next step's first forwards are computed). If the update was wrong, all ranks give
/// up what they have done of the step, and begin it again.
///
/// Until its point a rank only computes forward and moves outputs, so the gradients of the step
/// before are still there. It has begun no more receives from another rank than that rank has begun
/// sends to it before its own point: no rank waits before its point for what comes behind that of
/// another, and no receive takes the first message of the repeated step for one of the step that
/// was given up. The points are the last ones with these properties. `schedule` has sends and
/// passes check().
std::vector<std::size_t> validation_points(const Schedule& schedule);

/// The receives of a rank behind its point whose values other ranks have sent before theirs, in
/// their order: a rank that gives up a step takes them, so that none is under way when it begins
/// again.
std::vector<Action> receives_of_given_up(const Schedule& schedule,
                                         const std::vector<std::size_t>& points, int rank);

/// Whether the stage's first forward lies before its rank's point.
bool begins_before_point(const Schedule& schedule, const std::vector<std::size_t>& points,
                         int stage);

}  // namespace ringside::pipeline
