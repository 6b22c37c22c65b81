// Borders of a plan: what the stages of a pipeline hand to each other.
#pragma once

#include "core/plan/run_plan.h"
#include "core/scheme/pipeline_group.h"

namespace ringside::runner {

/// The values that cross the borders between the plan's stages for one micro-batch, found by a
/// forward and a backward of the whole model that compute nothing (core/device/counting_device.h),
/// and the tables that two of these stages read.
Borders borders_of(const RunPlan& plan);

/// The bytes that a worker with these stages sends to others in a step, in both directions, with
/// tables.
double border_bytes(const RunPlan& plan, const pipeline::Schedule& schedule, const Borders& borders,
                    int rank);

}  // namespace ringside::runner
