// The schedule of a plan's pipelines, and the file from which it may come.
#pragma once

#include <string>

#include "core/pipeline/schedule.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// Whether a value of pipeline.schedule is the path of a CSV file, and no name.
bool is_schedule_file(const std::string& schedule);

/// The text of such a file. Throws Error if it cannot be read.
std::string read_schedule_file(const std::string& file);

/// The schedule of a step of every pipeline of the plan, which has one: its ranks are the places
/// along the pipeline, its micro-batches those of a worker. It has sends only if its file has
/// them. Throws Error if the schedule does not exist, does not allow these numbers or is wrong; a
/// plan of the planner is never refused.
pipeline::Schedule schedule_of(const RunPlan& plan);

}  // namespace ringside
