// Runs that are saved after every step, and go on from there.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/scheme/scheme_info.h"
#include "experiments/tools/check/violations.h"

namespace ringside::tools::check {

/// Where the run of a plan, whose scheme is `scheme` or the one that the plan names, differs from
/// the unbroken one (where workers do not wait for each other: from the replay of its history): if
/// it writes a checkpoint after every step, and if it goes on from those after these steps. Blocks;
/// the checkpoints lie in a temporary folder meanwhile. Throws Error if a checkpoint cannot be
/// written or read.
Violations after_going_on(const RunPlan& plan, const std::vector<std::int64_t>& from,
                          const SchemeInfo* scheme = nullptr);

}  // namespace ringside::tools::check
