// The algorithm of a scheme's collectives, and the order of sums that follows from it.
#pragma once

#include <vector>

#include "core/comm/algorithm.h"
#include "core/comm/sums.h"
#include "core/plan/run_plan.h"
#include "peer/comm/call.h"

namespace ringside::peer {

/// Whether gradients are added up in another order than `single` has: by an algorithm, or over
/// ranks after every one of several micro-batches. False where the order is not known: NCCL chooses
/// it, and batch norms of several ranks make them one.
bool sums_in_own_order(const RunPlan& plan, Algorithm algorithm);

/// How the plan's workers add up `count` elements by a collective of this kind.
std::vector<Sum> sums_of(const RunPlan& plan, Algorithm algorithm, Call::Kind kind,
                         std::int64_t count, int workers);

/// The algorithms that collectives of the plan's workers take if Algorithm::automatic is asked for:
/// one for each of the `counts` of elements.
std::vector<Algorithm> chosen(const RunPlan& plan, Call::Kind kind,
                              const std::vector<std::int64_t>& counts, int workers);

/// Throws Error if the workers of the plan cannot use the algorithm; `key` is the option's.
void check_algorithm(const RunPlan& plan, Algorithm algorithm, std::string_view key);

}  // namespace ringside::peer
