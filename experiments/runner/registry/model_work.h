// The work and the activations of a model's training step, counted without computing it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/observe/model_work.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Counts the products of one sample of full length on a device without memory, in forward and
/// backward, with what the plan recomputes. `tokens`: those of such a sample, 0 for images. Throws
/// what the model throws for an impossible shape.
ModelWork work_of_sample(const RunPlan& plan, double tokens);

/// The most bytes of activations that a worker holds at once in the forward and the backward of a
/// micro-batch; losses and the workspace of kernels come on top. Throws as work_of_sample() does.
std::int64_t activations_of_worker(const RunPlan& plan);

/// Floating-point operations of a forward and a backward of each unit of the plan's model over one
/// micro-batch, with recomputation.
std::vector<double> operations_of_units(const RunPlan& plan);

}  // namespace ringside::runner
