// Borders of a plan: what the stages of a pipeline hand to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/plan/run_plan.h"
#include "core/scheme/pipeline_group.h"

namespace ringside::runner {

/// The values that cross the borders between the plan's stages for one micro-batch, found by a
/// forward and a backward of the whole model that compute nothing (core/device/counting_device.h),
/// and the tables that two of these stages read.
Borders borders_of(const RunPlan& plan);

/// The units, ascending, that follow the owner of a table whose gradient is added up later than
/// theirs (core/pipeline/table_places.h).
std::vector<std::size_t> units_behind_tables(const pipeline::Schedule& schedule,
                                             const std::vector<BorderTable>& tables);

/// SumTree::borders of a plan with a pipeline: the units but the first with which a stage begins,
/// and units_behind_tables().
std::vector<std::int64_t> gradient_borders(const RunPlan& plan);

/// The bytes that a worker with these stages sends to others in a step, in both directions, with
/// tables.
double border_bytes(const RunPlan& plan, const pipeline::Schedule& schedule, const Borders& borders,
                    int rank);

}  // namespace ringside::runner
