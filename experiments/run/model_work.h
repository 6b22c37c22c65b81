// What a training step of a model computes, counted without computing it.
#pragma once

#include "core/observe/model_work.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// Counts the products of one sample of full length on a device without memory, in forward and
/// backward, with what the plan recomputes. `tokens`: those of such a sample, 0 for images. Throws
/// what the model throws for an impossible shape.
ModelWork work_of_sample(const RunPlan& plan, double tokens);

}  // namespace ringside
