#include "core/plan/mesh.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ringside {

MeshPlace mesh_place(const RunPlan& plan, int worker) {
  const int stages = static_cast<int>(plan.mesh.pipeline), data = data_world(plan);
  if (plan.mesh.innermost == MeshDimension::pipeline) return {worker / stages, worker % stages};
  return {worker % data, worker / data};
}

int worker_at(const RunPlan& plan, const MeshPlace& place) {
  if (plan.mesh.innermost == MeshDimension::pipeline)
    return place.data * static_cast<int>(plan.mesh.pipeline) + place.pipeline;
  return place.pipeline * data_world(plan) + place.data;
}

std::vector<int> workers_at(const RunPlan& plan, int pipeline) {
  std::vector<int> out;
  for (int data = 0; data < data_world(plan); ++data)
    out.push_back(worker_at(plan, {data, pipeline}));
  return out;
}

/// Servers are numbered stage by stage.
MeshPlace place_in_mesh(const RunPlan& plan, int rank) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  if (self.worker >= 0) return mesh_place(plan, self.worker);
  return {0, self.server / (plan.servers / static_cast<int>(plan.mesh.pipeline))};
}

namespace {

/// The factors of these workers (DeviceConfig::slow).
std::vector<double> slow_of(const RunPlan& plan, const std::vector<int>& workers) {
  std::vector<double> out;
  for (const int worker : workers) {
    const auto place = static_cast<std::size_t>(worker);
    if (plan.device.slow.empty()) break;
    out.push_back(place < plan.device.slow.size() ? plan.device.slow[place] : 1);
  }
  return out;
}

}  // namespace

RunPlan data_view(const RunPlan& plan, int pipeline) {
  if (!has_pipeline(plan)) return plan;
  const int stages = static_cast<int>(plan.mesh.pipeline);
  RunPlan view = plan;
  view.world = data_world(plan);
  view.servers = plan.servers / stages;
  view.mesh = {.data = 1};
  view.sums.borders.clear();
  view.device.slow = slow_of(plan, workers_at(plan, pipeline));
  view.ranks.clear();
  view.homes.clear();
  for (const RankPlan& rank : plan.ranks) {
    const MeshPlace place = place_in_mesh(plan, rank.rank);
    if (place.pipeline != pipeline) continue;
    RankPlan& own = view.ranks.emplace_back(rank);
    own.rank = static_cast<int>(view.ranks.size()) - 1;
    view.ranks_of_whole.push_back(rank.rank);
    if (rank.worker >= 0) own.worker = place.data;
    if (rank.server >= 0) own.server = rank.server % view.servers;
    if (!plan.homes.empty()) view.homes.push_back(plan.homes[static_cast<std::size_t>(rank.rank)]);
  }
  return view;
}

int rank_in_view(const RunPlan& plan, int rank) {
  if (!has_pipeline(plan)) return rank;
  const int pipeline = place_in_mesh(plan, rank).pipeline;
  int before = 0;
  for (int r = 0; r < rank; ++r) before += place_in_mesh(plan, r).pipeline == pipeline ? 1 : 0;
  return before;
}

int rank_in_whole(const RunPlan& plan, int rank) {
  const std::vector<int>& whole = plan.ranks_of_whole;
  return whole.empty() ? rank : whole[static_cast<std::size_t>(rank)];
}

std::string mesh_text(const RunPlan& plan) {
  if (!has_pipeline(plan)) return {};
  return fmt::format("data {} x pipeline {}, {} within a machine", plan.mesh.data,
                     plan.mesh.pipeline, name_of(plan.mesh.innermost));
}

std::string pipeline_text(const RunPlan& plan) {
  if (!has_pipeline(plan)) return {};
  const StagesAlike alike = plan.pipeline.alike;
  return fmt::format(
      "{}, stages from units 0, {}{}", plan.pipeline.schedule, fmt::join(plan.pipeline.cuts, ", "),
      alike == StagesAlike::nothing ? "" : fmt::format(" of even {}", name_of(alike)));
}

}  // namespace ringside
