// The part of the plan that all runs of a comparison share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The members of the plans of all runs that were asked for, as plan.json has them, as far as they
/// are equal in all of them; without ranks, and without the single operations that were timed on a
/// simulated cluster. An empty object if there are no such runs.
nlohmann::ordered_json common_plan(const std::vector<RunRecord>& rows);

}  // namespace ringside::runner
