#include "experiments/runner/plan/mesh_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/pipeline/makers.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "core/plan/stages.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/speeds.h"
#include "experiments/runner/registry/model_work.h"

namespace ringside::runner {
namespace {

void check_data_dimension(const MeshConfig& asked, std::int64_t data, int world) {
  require_between("mesh.data", asked.data, 0, most_ranks);
  if (asked.data == 0 || asked.data == data) return;
  throw Error(
      "mesh.data = {}: with mesh.pipeline = {} these are {} workers, but the world has {}; set "
      "mesh.data = {}, or 0 for as many as the world allows",
      asked.data, asked.pipeline, asked.data * asked.pipeline, world, data);
}

/// Gives the plan the text of its schedule's file, or its schedule's name in this program.
void settle_schedule(PipelineConfig& pipeline) {
  if (!is_schedule_file(pipeline.schedule))
    pipeline.schedule = pipeline::find_maker(pipeline.schedule).name;
  else if (pipeline.text.empty())
    pipeline.text = read_schedule_file(pipeline.schedule);
}

int stages_of(const RunPlan& plan) {
  try {
    return schedule_of(plan).stages();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with("pipeline.")) throw;  // names the key
    throw Error(
        "pipeline.schedule = '{}' with mesh.pipeline = {} and {} (train.micro_batch, "
        "train.accumulation): {}",
        plan.pipeline.schedule, plan.mesh.pipeline,
        counted(plan.train.accumulation, "micro-batch", "es"), error.what());
  }
}

std::vector<double> parameters_of_units(const RunPlan& plan) {
  const auto device = find_device("cpu").make(plan, 0, nullptr);
  const Model model = make_model(plan.model, *device);
  std::vector<double> out;
  for (const auto& unit : model.units) out.push_back(static_cast<double>(unit->layout().count()));
  return out;
}

/// The run of real devices on those of the calibrated machine.
RunPlan simulated_on(const CalibratedMachine& machine, RunPlan plan) {
  plan.cluster = calibrated_for(plan, machine.cluster);
  plan.device.kind = "sim";
  return plan;
}

/// What the stages of the plan have alike if they are not cut by hand.
StagesAlike alike_in(const RunPlan& plan, const std::optional<CalibratedMachine>& machine) {
  if (plan.pipeline.balance == StageBalance::parameters) return StagesAlike::parameters;
  if (plan.cluster) return StagesAlike::simulated;
  return machine && has_devices_of(plan, *machine) ? StagesAlike::measured
                                                   : StagesAlike::operations;
}

std::vector<double> weights_of_units(const RunPlan& plan,
                                     const std::optional<CalibratedMachine>& machine) {
  switch (alike_in(plan, machine)) {
    case StagesAlike::simulated:
      return seconds_of_units(plan);
    case StagesAlike::measured:
      return seconds_of_units(simulated_on(*machine, plan));
    case StagesAlike::operations:
      return operations_of_units(plan);
    case StagesAlike::parameters:
    case StagesAlike::nothing:
      break;
  }
  return parameters_of_units(plan);
}

/// Throws Error for cuts by hand that do not make `stages` stages of `units` units.
void check_cuts(const std::vector<std::int64_t>& cuts, int stages, std::int64_t units) {
  const std::string given = fmt::format("pipeline.cuts = [{}]", fmt::join(cuts, ", "));
  if (static_cast<int>(cuts.size()) + 1 != stages)
    throw Error("{} makes {} stages, but the pipeline has {}; give {}, or leave pipeline.cuts out",
                given, cuts.size() + 1, stages, counted(stages - 1, "number"));
  std::int64_t before = 0;
  for (const std::int64_t cut : cuts) {
    if (cut <= before || cut >= units)
      throw Error(
          "{}: {} is not the first unit of a stage; the numbers ascend, and lie between 1 and {}, "
          "because the model has {}",
          given, cut, units - 1, counted(units, "unit"));
    before = cut;
  }
}

std::vector<int> workers_of_stage(const MeshConfig& mesh, int world, int stage) {
  RunPlan plan;
  plan.world = world;
  plan.mesh = mesh;
  return workers_at(plan, stage);
}

/// For each worker, the first one on its host.
std::vector<std::ptrdiff_t> sharing_of(const std::vector<int>& hosts, std::ptrdiff_t workers) {
  std::vector<std::ptrdiff_t> out;
  for (auto host = hosts.begin(); host != hosts.begin() + workers; ++host)
    out.push_back(std::find(hosts.begin(), host, *host) - hosts.begin());
  return out;
}

}  // namespace

MeshConfig settle_mesh(const MeshConfig& asked, const SchemeInfo& row, int world) {
  MeshConfig mesh{.data = 1};
  if (row.max_world == 1) return mesh;
  if (asked.pipeline == 1) {
    check_data_dimension(asked, world, world);
    return mesh;
  }
  if (world % asked.pipeline != 0)
    throw Error(
        "mesh.pipeline = {} does not divide world {}; choose worlds that are multiples of {}, or "
        "another mesh.pipeline",
        asked.pipeline, world, asked.pipeline);
  mesh = asked;
  mesh.data = world / asked.pipeline;
  check_data_dimension(asked, mesh.data, world);
  return mesh;
}

std::vector<int> hosts_of_stage(const std::vector<int>& hosts, const MeshConfig& mesh, int stage) {
  std::vector<int> out;
  for (const int worker : workers_of_stage(mesh, static_cast<int>(hosts.size()), stage))
    out.push_back(hosts[static_cast<std::size_t>(worker)]);
  return out;
}

void check_options(const RunPlan& plan, const SchemeInfo& row, const MeshConfig& mesh) {
  if (mesh.pipeline == 1) return row.check(plan.options, plan);
  const int world = plan.world * static_cast<int>(mesh.pipeline);
  RunPlan of_stage = plan;
  for (int stage = 0; stage < mesh.pipeline; ++stage) {
    of_stage.ranks_of_whole = workers_of_stage(mesh, world, stage);
    row.check(plan.options, of_stage);
  }
}

void check_sums_of_stages(const RunPlan& plan, const MeshConfig& mesh,
                          const std::vector<int>& hosts) {
  if (!plan.cluster || !plan.sums.own_order || !computes(plan)) return;
  for (int stage = 0; stage < mesh.pipeline; ++stage)
    if (sharing_of(hosts_of_stage(hosts, mesh, stage), plan.world) != sharing_of(hosts, plan.world))
      throw Error(
          "mesh.innermost = '{}': workers of stage {} share machines otherwise than those of a run "
          "of world {}, and scheme {} adds up in an order that follows from machines, so that the "
          "run has no definition; set sim.numerics = false, or choose another mesh.innermost or "
          "cluster",
          name_of(mesh.innermost), stage, plan.world, plan.scheme);
}

void lay_out_stages(RunPlan& plan, const MeshConfig& mesh) {
  plan.mesh = mesh;
  if (!has_pipeline(plan)) return;
  const std::vector<RankPlan> stage = std::exchange(plan.ranks, {});
  const int data = plan.world, servers = plan.servers,
            pipeline = static_cast<int>(plan.mesh.pipeline);
  if (static_cast<std::int64_t>(stage.size()) > most_ranks / pipeline)
    throw Error("scheme {}: {} stages of {} ranks each are more than {} ranks; ask for fewer",
                plan.scheme, pipeline, stage.size(), most_ranks);
  plan.world = data * pipeline;
  plan.servers = servers * pipeline;
  const auto add = [&](int of_stage, const RankPlan& rank) {
    RankPlan& own = plan.ranks.emplace_back(rank);
    own.rank = static_cast<int>(plan.ranks.size()) - 1;
    if (own.worker >= 0) own.worker = own.rank;
    if (own.server >= 0) own.server += of_stage * servers;
  };
  for (int worker = 0; worker < plan.world; ++worker) {
    const MeshPlace place = mesh_place(plan, worker);
    add(place.pipeline, stage[static_cast<std::size_t>(place.data)]);
  }
  for (int p = 0; p < pipeline; ++p)
    for (auto server = stage.begin() + data; server != stage.end(); ++server) add(p, *server);
}

void check_given(const PipelineConfig& asked, const RunPlan& plan, const SchemeInfo& row,
                 const MeshConfig& mesh) {
  if (asked.has_profile() && !plan.cluster)
    throw Error(
        "pipeline.profile: stages of real ranks take the time that they take; leave it out, or set "
        "device.kind = 'sim'");
  // `single` is compared with pipelines, and has no use for their keys.
  if (mesh.pipeline > 1 || row.max_world == 1 || asked.cuts.empty()) return;
  throw Error(
      "pipeline.cuts = [{}]: every worker has the whole model, as mesh.pipeline = 1; leave it out, "
      "or set mesh.pipeline = {}",
      fmt::join(asked.cuts, ", "), asked.cuts.size() + 1);
}

void settle_pipeline(RunPlan& plan, const PipelineConfig& asked,
                     const std::optional<CalibratedMachine>& machine) {
  plan.pipeline = asked;
  require_between("pipeline.chunks", asked.chunks, 0, most_ranks);
  settle_schedule(plan.pipeline);
  const int stages = stages_of(plan);
  plan.pipeline.chunks = stages % plan.mesh.pipeline == 0 ? stages / plan.mesh.pipeline : 0;
  const std::vector<double> weights = weights_of_units(plan, machine);
  const auto units = static_cast<std::int64_t>(weights.size());
  if (stages > units)
    throw Error(
        "mesh.pipeline = {}: schedule {} has {}, but the model has {}, of which each stage needs "
        "one; choose a smaller mesh.pipeline, or a model with more layers",
        plan.mesh.pipeline, plan.pipeline.schedule, counted(stages, "stage"),
        counted(units, "unit"));
  plan.pipeline.alike = asked.cuts.empty() ? alike_in(plan, machine) : StagesAlike::nothing;
  if (asked.cuts.empty())
    plan.pipeline.cuts = balanced_cuts(weights, stages);
  else
    check_cuts(asked.cuts, stages, units);
}

}  // namespace ringside::runner
