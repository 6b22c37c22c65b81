#include "experiments/runner/run/mesh_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/model_borders.h"

namespace ringside::runner {

std::shared_ptr<const pipeline::Schedule> PipelineOfRun::schedule(const RunPlan& plan) {
  if (!schedule_) schedule_ = std::make_shared<pipeline::Schedule>(schedule_of(plan));
  return schedule_;
}

std::shared_ptr<const Borders> PipelineOfRun::borders(const RunPlan& plan) {
  if (!borders_) borders_ = std::make_shared<Borders>(borders_of(plan));
  return borders_;
}

const RunPlan& PipelineOfRun::view(const RunPlan& plan, int place) {
  const auto known = views_.find(place);
  if (known != views_.end()) return known->second;
  return views_.emplace(place, data_view(plan, place)).first->second;
}

MeshRank::MeshRank(const RunPlan& plan, int rank, Store& store, sim::World* world)
    : MeshRank(plan, rank, store,
               world ? world->shared().get<PipelineOfRun>() : std::make_shared<PipelineOfRun>()) {}

MeshRank::MeshRank(const RunPlan& plan, int rank, Store& store, std::shared_ptr<PipelineOfRun> run)
    : whole_(plan), store_(store), rank_(rank_in_view(plan, rank)) {
  if (!has_pipeline(plan)) return;
  place_ = place_in_mesh(plan, rank).pipeline;
  run_ = std::move(run);
  view_ = &run_->view(plan, place_);
  part_.emplace(store, fmt::format("/pipeline-{}", place_));
}

Model MeshRank::part_of(Model whole) {
  if (!view_) {
    for (const std::int64_t unit : whole_.sums.borders)
      whole.gradient_borders.push_back(static_cast<std::size_t>(unit));
    return whole;
  }
  for (const auto& unit : whole.units) counts_.push_back(unit->layout().count());
  const std::vector<UnitRange> stages = stages_of(whole_, whole.units.size());
  std::vector<UnitRange> own;
  for (const int stage : run_->schedule(whole_)->stages_of(place_))
    own.push_back(stages[static_cast<std::size_t>(stage)]);
  Model out = ringside::part_of(std::move(whole), own);
  const std::vector<std::size_t>& units = out.part->units;
  for (const std::size_t behind :
       units_behind_tables(*run_->schedule(whole_), run_->borders(whole_)->tables))
    if (const auto unit = std::ranges::find(units, behind); unit != units.end())
      out.gradient_borders.push_back(static_cast<std::size_t>(unit - units.begin()));
  std::ranges::sort(out.gradient_borders);
  return out;
}

std::shared_ptr<const InitialValues> MeshRank::values_of(std::shared_ptr<const InitialValues> whole,
                                                         const Model& part) const {
  if (!view_) return whole;
  if (!whole) whole = drawn_values(static_cast<std::uint64_t>(whole_.train.seed));
  return values_of_part(std::move(whole), part);
}

std::unique_ptr<PipelineGroup> MeshRank::pipeline(const RankContext& whole) const {
  if (!view_ || whole.self().worker < 0) return nullptr;
  return std::make_unique<PipelineGroup>(whole, run_->schedule(whole_), run_->borders(whole_),
                                         counts_);
}

}  // namespace ringside::runner
