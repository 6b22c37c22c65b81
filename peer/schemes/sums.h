// The algorithm of a scheme's collectives, and the order of sums that follows from it.
#pragma once

#include <string>
#include <vector>

#include "core/comm/algorithm.h"
#include "core/comm/sums.h"
#include "core/observe/rank_record.h"
#include "core/plan/run_plan.h"
#include "peer/comm/collective.h"

namespace ringside::peer {

/// Workers 0, 1, ... `count` - 1; or `count` of them from `first` on, `stride` apart.
std::vector<int> some_workers(int count, int first = 0, int stride = 1);

/// The order in which gradients are added up. An algorithm of messages, two levels, and a sum over
/// ranks in each of several micro-batches all differ from the order of `single`. Where NCCL
/// chooses, the result is of_single too: the order is unknown, but the same under all schemes.
SumOrder order_of_sums(const RunPlan& plan, Algorithm algorithm, bool two_levels = false);

/// The sums by which these workers of the plan add up `count` elements in a collective of this
/// kind. The additions name workers.
std::vector<Sum> sums_of(const RunPlan& plan, Algorithm algorithm, Collective::Kind kind,
                         std::int64_t count, const std::vector<int>& workers);

/// The algorithms that collectives of the plan's workers take if Algorithm::automatic is asked for:
/// one for each of the `counts` of elements.
std::vector<Algorithm> chosen(const RunPlan& plan, Collective::Kind kind,
                              const std::vector<std::int64_t>& counts,
                              const std::vector<int>& workers);

/// A figure for each algorithm of chosen(): the number of its collectives. The figure's name is
/// "`what` by ALGORITHM".
std::vector<SchemeFigure> figures_of_choice(const RunPlan& plan, Collective::Kind kind,
                                            const std::vector<std::int64_t>& counts,
                                            const std::vector<int>& workers,
                                            const std::string& what);

/// Throws Error if these workers of the plan cannot use the algorithm; `key` is the option's.
void check_algorithm(const RunPlan& plan, Algorithm algorithm, const std::string& key,
                     const std::vector<int>& workers);

}  // namespace ringside::peer
