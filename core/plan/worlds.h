// The worlds of a run whose workers come and go.
#pragma once

#include "core/plan/run_plan.h"

namespace ringside {

/// Whether the run's workers may come and go.
inline bool is_elastic(const RunPlan& plan) { return plan.most_world > 0; }

/// The present plan of an elastic run at one of RunPlan::worlds: what depends on the world is that
/// of the plan there, and all else stays. Throws Error for another world.
RunPlan at_world(const RunPlan& plan, int world);

}  // namespace ringside
