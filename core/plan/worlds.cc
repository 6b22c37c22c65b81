#include "core/plan/worlds.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside {

RunPlan at_world(const RunPlan& plan, int world) {
  const auto found = std::ranges::find(plan.worlds, world, &RunPlan::world);
  if (found == plan.worlds.end()) throw Error("the run cannot have world {}", world);
  RunPlan out = plan;
  out.options = found->options;
  out.world = world;
  out.servers = found->servers;
  out.expendable = found->expendable;
  out.model.batch_norm_group = found->model.batch_norm_group;
  out.train.micro_batch = found->train.micro_batch;
  out.train.accumulation = found->train.accumulation;
  out.train.shares = found->train.shares;
  out.train.weights = found->train.weights;
  out.sums = found->sums;
  out.ranks = found->ranks;
  return out;
}

}  // namespace ringside
