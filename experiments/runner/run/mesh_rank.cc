#include "experiments/runner/run/mesh_rank.h"

#include <fmt/format.h>

#include <utility>

#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/model_borders.h"

namespace ringside::runner {

MeshRank::MeshRank(const RunPlan& plan, int rank, Store& store)
    : whole_(plan), store_(store), rank_(rank_in_view(plan, rank)) {
  if (!has_pipeline(plan)) return;
  place_ = place_in_mesh(plan, rank).pipeline;
  view_ = data_view(plan, place_);
  part_.emplace(store, fmt::format("/pipeline-{}", place_));
}

Model MeshRank::part_of(Model whole) {
  if (!view_) return whole;
  for (const auto& unit : whole.units) counts_.push_back(unit->layout().count());
  const std::vector<UnitRange> stages = stages_of(whole_, whole.units.size());
  std::vector<UnitRange> own;
  for (const int stage : schedule_of(whole_).stages_of(place_))
    own.push_back(stages[static_cast<std::size_t>(stage)]);
  return ringside::part_of(std::move(whole), own);
}

std::shared_ptr<const InitialValues> MeshRank::values_of(std::shared_ptr<const InitialValues> whole,
                                                         const Model& part) const {
  if (!view_) return whole;
  if (!whole) whole = drawn_values(static_cast<std::uint64_t>(whole_.train.seed));
  return values_of_part(std::move(whole), part);
}

std::unique_ptr<PipelineGroup> MeshRank::pipeline(const RankContext& whole) const {
  if (!view_ || whole.self().worker < 0) return nullptr;
  return std::make_unique<PipelineGroup>(whole, schedule_of(whole_), borders_of(whole_), counts_);
}

}  // namespace ringside::runner
