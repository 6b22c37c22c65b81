// Checks of the consistency of `ps` against a plan, and the batch of an update.
#pragma once

#include "core/plan/run_plan.h"
#include "ps/schemes/ps_options.h"

namespace ringside::ps {

/// Throws Error for options of consistency that contradict each other, and for a plan with which
/// the consistency has no meaning.
void check_consistency(const PsOptions& options, const RunPlan& plan);

/// The number of samples whose gradients make one update, of a run with `workers` workers.
std::int64_t gradient_batch(const RunPlan& plan, int workers, const ConsistencyRules& rules);

}  // namespace ringside::ps
