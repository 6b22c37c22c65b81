// The activations of each stage of a pipeline, counted without computing them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Bytes that a stage holds for one micro-batch, with the input that it received and without losses
/// and the workspace of kernels.
struct StageActivations {
  std::int64_t kept = 0;         // from the end of F until B or I begins
  std::int64_t for_weights = 0;  // from the end of I until W; 0 where backward is not split
  std::int64_t most = 0;         // at any time in its forward or its backward
};

/// Of each stage of the plan's pipeline, whose backward is split if `halves`. Throws what the model
/// throws for an impossible shape.
std::vector<StageActivations> activations_of_stages(const RunPlan& plan, bool halves);

/// The most bytes of activations that the worker at place `rank` of a pipeline holds: what all
/// micro-batches that are under way in its stages keep, and what the busiest of its stages needs
/// besides while it computes. `stages` has one entry for each stage of the schedule.
double most_activations(const pipeline::Schedule& schedule, int rank,
                        const std::vector<StageActivations>& stages);

}  // namespace ringside::runner
