#include "core/plan/pipeline_plan.h"

#include "core/pipeline/makers.h"

namespace ringside {

std::vector<UnitRange> stages_of(const RunPlan& plan, std::size_t units) {
  std::vector<UnitRange> out;
  std::size_t first = 0;
  for (const std::int64_t cut : plan.pipeline.cuts) {
    out.push_back({first, static_cast<std::size_t>(cut)});
    first = static_cast<std::size_t>(cut);
  }
  out.push_back({first, units});
  return out;
}

pipeline::Schedule schedule_of(const RunPlan& plan) {
  const auto& maker = pipeline::find_maker(plan.pipeline.schedule);
  pipeline::Schedule schedule =
      with_sends(maker.make(static_cast<int>(plan.mesh.pipeline),
                            static_cast<int>(plan.pipeline.chunks), plan.train.accumulation));
  check(schedule);
  return schedule;
}

}  // namespace ringside
