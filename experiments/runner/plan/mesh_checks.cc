#include "experiments/runner/plan/mesh_checks.h"

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/plan/faults.h"
#include "core/plan/mesh.h"

namespace ringside::runner {
namespace {

/// A setting with which no run has a pipeline. `asked` shows it with its value, or is empty where
/// the plan does not ask for it. `why` continues "with a pipeline".
struct MeshRefusal {
  std::string (*asked)(const RunPlan& plan, const SchemeInfo& row);
  std::string_view why;
  std::string_view remedy;
};

/// "key = value" if the value is not the one that stands for nothing.
template <class T>
std::string unless(std::string_view key, const T& value, const T& nothing) {
  return value == nothing ? std::string() : fmt::format("{} = {}", key, value);
}

std::string quoted(std::string_view key, const std::string& value) {
  return value.empty() ? std::string() : fmt::format("{} = '{}'", key, value);
}

std::string scheme_if(bool holds, const RunPlan& plan) {
  return holds ? fmt::format("scheme {}", plan.scheme) : std::string();
}

bool has_servers(const RunPlan& plan, const SchemeInfo& row) {
  return row.servers(plan.options, plan.world).count > 0;
}

/// The ports at which servers listen, if the scheme's options name some.
std::string asked_port(const RunPlan& plan) {
  for (const Field& field : plan.options.fields())
    if (auto* const port = std::get_if<std::int64_t*>(&field.value); port && field.name == "port")
      return unless(fmt::format("scheme.{}.port", plan.scheme), **port, std::int64_t{0});
  return {};
}

/// The format in which gradients may overflow.
std::string asked_fp16(const TrainConfig& train) {
  if (train.precision == Precision::fp16) return "train.precision = 'fp16'";
  return train.reduce_precision == ReducePrecision::fp16 ? "train.reduce_precision = 'fp16'" : "";
}

std::string asked_fault_of_server(const RunPlan& plan) {
  for (const std::string& text : plan.faults.plan)
    if (fault_from(text).server) return quoted("faults.plan", text);
  return {};
}

std::string asked_checkpoints(const CheckpointConfig& checkpoint) {
  if (!checkpoint.path.empty()) return quoted("checkpoint.path", checkpoint.path);
  return unless("checkpoint.every", checkpoint.every, std::int64_t{0});
}

constexpr std::string_view leave_out = "leave it out", other_scheme = "choose ddp or fsdp";

constexpr MeshRefusal refusals[] = {
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return has_servers(plan, row) ? asked_checkpoints(plan.checkpoint) : std::string();
     },
     "servers write no checkpoints, as they know their own stage alone",
     "leave it out, or choose ddp or fsdp"},
    {[](const RunPlan& plan, const SchemeInfo&) {
       return unless("faults.least_world", plan.faults.least_world, std::int64_t{0});
     },
     "the world cannot change", leave_out},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return has_servers(plan, row) ? asked_fault_of_server(plan) : std::string();
     },
     "servers belong to stages, and faults do not name these", leave_out},
    {[](const RunPlan& plan, const SchemeInfo&) {
       return plan.train.shares == Shares::equal
                  ? std::string()
                  : fmt::format("train.shares = '{}'", name_of(plan.train.shares));
     },
     "micro-batches have one size", "choose 'equal'"},
    {[](const RunPlan& plan, const SchemeInfo&) {
       return unless("model.batch_norm_group", plan.model.batch_norm_group, std::int64_t{1});
     },
     "batch norms cannot be joined over ranks", "choose 1"},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return has_servers(plan, row)
                  ? unless("train.skip_not_finite", plan.train.skip_not_finite, std::int64_t{0})
                  : std::string();
     },
     "servers know of their own stage alone whether gradients are finite",
     "leave it out, or choose ddp or fsdp"},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return scheme_if(row.program != nullptr, plan);
     },
     "another program would have to know the stages", other_scheme},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return scheme_if(row.topology == SchemeTopology::master, plan);
     },
     "one master would need the stages of all workers", other_scheme},
    {[](const RunPlan& plan, const SchemeInfo&) {
       return scheme_if(plan.promise == Promise::replayed, plan);
     },
     "workers that do not wait for each other would compute with stages of different steps",
     other_scheme},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return row.needs_whole_model ? row.needs_whole_model(plan.options, plan) : std::string();
     },
     "workers divide their own stages alone, so that the run is not that of its definition",
     "choose a value with which they divide nothing"},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return has_servers(plan, row) ? unless("optimizer.clip_norm", plan.optimizer.clip_norm, 0.0)
                                     : std::string();
     },
     "servers know the norm of their own stage's gradients alone", "choose 0, or ddp or fsdp"},
    {[](const RunPlan& plan, const SchemeInfo& row) {
       return has_servers(plan, row) ? asked_fp16(plan.train) : std::string();
     },
     "servers know of their own stage alone whether fp16 gradients overflow",
     "choose 'bf16', or ddp or fsdp"},
    {[](const RunPlan& plan, const SchemeInfo&) { return asked_port(plan); },
     "servers of all stages would listen at the same ports", "choose 0"},
};

}  // namespace

void check_mesh(const RunPlan& plan, const SchemeInfo& row, const MeshConfig& mesh) {
  for (const MeshRefusal& one : refusals)
    if (const std::string asked = one.asked(plan, row); !asked.empty())
      throw Error(
          "mesh.pipeline = {} does not go with {}: with a pipeline {}; {}, or set "
          "mesh.pipeline = 1",
          mesh.pipeline, asked, one.why, one.remedy);
}

void check_post_validation(const RunPlan& plan, const SchemeInfo& row) {
  if (!plan.pipeline.post_validation) return;
  const auto refuse = [](const std::string& asked, std::string_view why, std::string_view remedy) {
    throw Error(
        "pipeline.post_validation = true does not go with {}: {}; {}, or set "
        "pipeline.post_validation = false",
        asked, why, remedy);
  };
  if (find_optimizer(plan.optimizer.kind).rounds > 0)
    refuse(fmt::format("optimizer.kind = '{}'", plan.optimizer.kind),
           "every update needs sums over all stages that are not known beforehand",
           "choose another optimizer");
  if (plan.train.offload != Offload::none)
    refuse(fmt::format("train.offload = '{}'", name_of(plan.train.offload)),
           "the host keeps no copy of what it updates", "choose 'none'");
  if (!row.amends)
    refuse(fmt::format("scheme {}", plan.scheme),
           "its step is more than an update of parameters that can be put right", other_scheme);
}

}  // namespace ringside::runner
