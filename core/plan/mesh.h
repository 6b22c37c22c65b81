// The mesh of a run's workers: named dimensions, and each worker's place in them.
#pragma once

#include <string>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside {

/// A worker's place along each dimension of the mesh, from 0.
struct MeshPlace {
  int data = 0, pipeline = 0;
  bool operator==(const MeshPlace&) const = default;
};

/// Whether the workers have different parts of the model.
inline bool has_pipeline(const RunPlan& plan) { return plan.mesh.pipeline > 1; }
/// The number of workers with different samples: the world, unless the plan has a pipeline.
inline int data_world(const RunPlan& plan) {
  return plan.world / static_cast<int>(plan.mesh.pipeline);
}

MeshPlace mesh_place(const RunPlan& plan, int worker);
int worker_at(const RunPlan& plan, const MeshPlace& place);
/// The workers at this place of the pipeline, along the data dimension.
std::vector<int> workers_at(const RunPlan& plan, int pipeline);

/// The plan as the schemes of one stage's workers see it: a run of these workers and their servers
/// alone, along the data dimension, with worker and server numbers from 0 and without a mesh.
/// Throws nothing; a plan without a pipeline is its own view.
RunPlan data_view(const RunPlan& plan, int pipeline);
/// The number of a rank within that view.
int rank_in_view(const RunPlan& plan, int rank);
/// The number that a rank of such a view has in the run of all stages; of other plans its own.
int rank_in_whole(const RunPlan& view, int rank);
/// The place of a rank's worker; a server that is no worker has that of the stage that it serves.
MeshPlace place_in_mesh(const RunPlan& plan, int rank);

/// "data 2 x pipeline 4, pipeline within a machine"; empty for a plan without a pipeline.
std::string mesh_text(const RunPlan& plan);
/// "1f1b, stages from units 0, 3 of even parameters": the schedule, the first unit of each stage,
/// and what stages have alike, unless they are cut by hand; likewise.
std::string pipeline_text(const RunPlan& plan);

}  // namespace ringside
