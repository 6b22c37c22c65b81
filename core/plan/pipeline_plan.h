// The stages and the schedule of a run with a pipeline.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/models/model_part.h"
#include "core/pipeline/schedule.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The units of every stage of the plan, of a model of so many units.
std::vector<UnitRange> stages_of(const RunPlan& plan, std::size_t units);

/// Whether a value of pipeline.schedule is the path of a CSV file, and no name.
bool is_schedule_file(const std::string& schedule);
/// The text of such a file. Throws Error, which names the key too, if it cannot be read.
std::string read_schedule_file(const std::string& file);

/// The actions of a step of every pipeline of the plan, with sends and receives, as its schedule's
/// maker or the text of its file says (PipelineConfig::text). Throws Error if its schedule is not
/// known, is wrong, is not for its workers and micro-batches, or holds more of these than
/// pipeline.most_in_flight; a plan that the planner has checked has one.
pipeline::Schedule schedule_of(const RunPlan& plan);

/// A sentence without its end for plans that both recompute fully and divide backward, as the zb_*
/// do: little memory is saved, because what W needs is made again in I. Empty for others. Throws
/// Error as schedule_of() does.
std::string recomputation_remark(const RunPlan& plan);

}  // namespace ringside
