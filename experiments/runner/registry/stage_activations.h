// The activations of each stage of a pipeline, counted without computing them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Bytes of activations that a stage holds for one micro-batch, with the input that it received and
/// without losses and the workspace of kernels.
struct StageActivations {
  std::int64_t kept = 0;         // from the end of F until B or I begins
  std::int64_t for_weights = 0;  // from the end of I until W begins
  /// The most while it is in F, B, I or W.
  std::int64_t in_forward = 0, in_backward = 0, in_input_gradient = 0, in_weight_gradient = 0;
};

/// Of each stage of the plan's pipeline. Throws what the model throws for an impossible shape.
std::vector<StageActivations> activations_of_stages(const RunPlan& plan);

/// The most bytes of activations that the worker at place `rank` of a pipeline holds: what all
/// micro-batches keep that are under way in its stages, each with a whole backward or a divided one
/// as the schedule has it, and what the action needs besides that the worker is at. `stages` has
/// one entry for each stage of the schedule. What stages only hold until it is sent, or received
/// ahead of its use, is not in it.
double most_activations(const pipeline::Schedule& schedule, int rank,
                        const std::vector<StageActivations>& stages);

}  // namespace ringside::runner
