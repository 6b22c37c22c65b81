// Refusals of what a run with a pipeline cannot do yet: a condition and a text for each.
#pragma once

#include "core/plan/run_plan.h"
#include "core/scheme/scheme_info.h"

namespace ringside::runner {

/// Throws Error if a run of the scheme on a mesh with a pipeline cannot do what its plan asks for.
/// The error names the key, its value, and what to do. The plan has its options, its training and
/// its faults, but needs no ranks; its world is that of the data dimension.
void check_mesh(const RunPlan& plan, const SchemeInfo& row, const MeshConfig& mesh);

/// Throws Error if the updates of a run with a pipeline cannot be validated afterwards although the
/// plan asks for it (pipeline.post_validation): because of its optimizer, or of its scheme.
void check_post_validation(const RunPlan& plan, const SchemeInfo& row);

}  // namespace ringside::runner
