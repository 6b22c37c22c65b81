// The stages and the schedule of a run with a pipeline.
#pragma once

#include <cstddef>
#include <vector>

#include "core/models/model_part.h"
#include "core/pipeline/schedule.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The units of every stage of the plan, of a model of so many units.
std::vector<UnitRange> stages_of(const RunPlan& plan, std::size_t units);

/// The actions of a step of the plan, with sends and receives. Throws Error if its schedule is not
/// known or cannot be made for its micro-batches; a plan that the planner has checked has one.
pipeline::Schedule schedule_of(const RunPlan& plan);

}  // namespace ringside
