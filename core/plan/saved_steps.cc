#include "core/plan/saved_steps.h"

#include "core/plan/worlds.h"

namespace ringside {

bool writes_checkpoints(const RunPlan& plan) {
  return plan.cluster ? plan.checkpoint.every > 0 : !plan.checkpoint.path.empty();
}

bool saved_after(const RunPlan& plan, std::int64_t done) {
  return writes_checkpoints(plan) &&
         (done == plan.until || checkpoints_after(plan.checkpoint, done, plan.train.steps));
}

bool copied_after(const RunPlan& plan, std::int64_t done) {
  return is_elastic(plan) && done % plan.checkpoint.memory_every == 0;
}

}  // namespace ringside
