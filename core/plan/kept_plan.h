// Plans in files, which may be older than some of the fields.
#pragma once

#include "core/base/json_fields.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// Reads a plan as run_plan_from_json() does; a field that the plan lacks keeps its default
/// (Absent::keeps_default).
RunPlan kept_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults);

}  // namespace ringside
