#include "core/plan/definition.h"

#include <algorithm>
#include <utility>

#include "core/plan/faults.h"
#include "core/plan/mesh.h"
#include "core/sim/uneven.h"

namespace ringside {

RunPlan definition_of(const RunPlan& run) {
  RunPlan plan = run;
  plan.purpose = Purpose::reference;
  plan.defines = data_world(run);
  plan.world = 1;
  plan.repeat = 0;
  plan.train.accumulation *= data_world(run);
  plan.mesh = {.data = 1};
  plan.pipeline = {};
  plan.train.offload = Offload::none;
  plan.ranks.assign(1, run.ranks[0]);
  plan.homes.resize(std::min<std::size_t>(plan.homes.size(), 1));
  plan.ranks[0].server = -1;
  plan.servers = plan.expendable = 0;
  plan.checkpoint = {};
  plan.resume.clear();
  plan.faults = {};
  plan.faults.plan = poisons_for_definition(run);
  plan.least_world = plan.most_world = 0;
  plan.worlds.clear();
  plan.host_copies.clear();
  if (plan.program && plan.program->definition != DefinedBy::program) plan.program.reset();
  plan.device.slow.clear();
  plan.device.jitter = 0;
  if (plan.cluster)
    scale_device_memory(
        *plan.cluster,
        static_cast<double>(run.world * (plan.sums.each_micro_batch ? run.train.accumulation : 1)));
  return plan;
}

RunPlan replay_of(const RunPlan& run, std::vector<ChunkHistory> history,
                  std::vector<std::int64_t> lost) {
  RunPlan plan = definition_of(run);
  plan.id = run.id + "-replay";
  plan.listing.label = run.listing.label + " (replay)";
  plan.history = std::move(history);
  plan.lost = std::move(lost);
  return plan;
}

}  // namespace ringside
