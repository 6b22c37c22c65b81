// The plan of a run whose workers form a mesh: its dimensions, the stages of its pipeline, and the
// places of its ranks.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// RunPlan::mesh of a run of `world` workers. Schemes of one worker have no mesh, whatever the
/// configuration says. Throws Error if the dimensions do not make that world.
MeshConfig settle_mesh(const MeshConfig& asked, const SchemeInfo& row, int world);

/// Those of the workers' hosts on which workers of one stage live, along the data dimension.
std::vector<int> hosts_of_stage(const std::vector<int>& hosts, const MeshConfig& mesh, int stage);

/// Lets the scheme check its options for the workers of every stage: what an algorithm may do
/// depends on their places in a simulated cluster. The plan is still that of one stage.
void check_options(const RunPlan& plan, const SchemeInfo& row, const MeshConfig& mesh);

/// Throws Error if a simulated run adds up in an order of its own, and workers of one stage share
/// machines otherwise than those of a run of the data world do: the order follows from the
/// machines, and its definition knows those of the data world alone. `hosts` has that of each
/// worker; the plan is still that of one stage.
void check_sums_of_stages(const RunPlan& plan, const MeshConfig& mesh,
                          const std::vector<int>& hosts);

/// Gives the plan its mesh and lays out the ranks of all stages. The plan has the world, the ranks
/// and the servers of one stage alone, as a run along the data dimension would: its world becomes
/// that of all workers. Workers have the numbers of mesh_place(); servers beside workers go with
/// these, and other servers follow behind all workers, stage by stage. Throws Error for too many
/// ranks. A plan without a pipeline keeps its ranks.
void lay_out_stages(RunPlan& plan, const MeshConfig& mesh);

/// Throws Error for keys of a pipeline that a run cannot follow: a profile of real ranks, and cuts
/// where workers have the whole model although the scheme could divide it.
void check_given(const PipelineConfig& asked, const RunPlan& plan, const SchemeInfo& row,
                 const MeshConfig& mesh);

/// Sets RunPlan::pipeline of a plan with a pipeline, with cuts; stages of even time on real devices
/// follow from what was measured on `machine`, if these are its devices. Throws Error for a
/// schedule that does not exist or does not allow these numbers, for cuts that the model's units do
/// not allow, and for more stages than units.
void settle_pipeline(RunPlan& plan, const PipelineConfig& asked,
                     const std::optional<CalibratedMachine>& machine);

}  // namespace ringside::runner
