#include "core/plan/run_plan.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"

namespace ringside {
Fields fields_of(RankPlan& rank) {
  return {{"rank", &rank.rank},     {"worker", &rank.worker},   {"server", &rank.server},
          {"device", &rank.device}, {"ordinal", &rank.ordinal}, {"environment", &rank.environment}};
}

/// The fields of all members except `save`, which is written only for the few runs that have it.
/// The options are those of the plan's scheme.
static Fields fields_of(RunPlan& plan) {
  return {{"experiment", &plan.experiment},
          {"run", &plan.id},
          {"label", &plan.label},
          {"purpose", &plan.purpose},
          {"sum_tree", Fields{{"groups", &plan.sums.groups},
                              {"micro_batches", &plan.sums.micro_batches},
                              {"lr", &plan.sums.lr}}},
          {"scheme", &plan.scheme},
          {"options", plan.options.fields()},
          {"promise", &plan.promise},
          {"world", &plan.world},
          {"defines", &plan.defines},
          {"servers", &plan.servers},
          {"repeat", &plan.repeat},
          {"line", &plan.line},
          {"place", &plan.place},
          {"model", fields_of(plan.model)},
          {"data", fields_of(plan.data)},
          {"train", fields_of(plan.train)},
          {"optimizer", fields_of(plan.optimizer)},
          {"device", fields_of(plan.device)},
          {"sim", fields_of(plan.sim)},
          {"cluster", Structs(&plan.cluster)},
          {"ranks", Structs(&plan.ranks)}};
}

Fields fields_of(SimConfig& config) {
  return {
      {"numerics", &config.numerics,
       "also compute the values, so that losses and hash equal those of a run on the CPU"},
      {"message_ranks", &config.message_ranks,
       "collectives of up to this many ranks run message by message, larger ones as equivalent "
       "flows"},
      {"traced_ranks", &config.traced_ranks, "how many ranks, from rank 0 on, the trace shows"}};
}

Fields fields_of(DeviceConfig& config) {
  return {{"kind", &config.kind, "which device (see `ringside list`)"},
          {"threads", &config.threads, "cpu: number of threads with which a rank computes"},
          {"tf32", &config.tf32,
           "cuda, sim: multiply fp32 matrices on tensor cores (TF32), whose inputs have 10 bits of "
           "mantissa"},
          {"cluster", &config.cluster,
           "cluster file; for sim: the cluster to simulate; for other devices: this machine as "
           "`ringside calibrate` measured it, for predictions"}};
}

std::string RankPlan::role() const {
  if (worker >= 0 && server >= 0) return "worker+server";
  return worker >= 0 ? "worker" : "server";
}

bool shares_device(const RunPlan& plan) {
  std::set<std::pair<std::string, int>> taken;
  for (const RankPlan& rank : plan.ranks)
    if (rank.ordinal >= 0 && !taken.emplace(device_kind(plan, rank), rank.ordinal).second)
      return true;
  return false;
}

int gpus(const RunPlan& plan) {
  std::set<std::pair<std::string, int>> taken;
  for (const RankPlan& rank : plan.ranks)
    if (rank.ordinal >= 0) taken.emplace(device_kind(plan, rank), rank.ordinal);
  return static_cast<int>(taken.size());
}

bool same_case(const RunPlan& a, const RunPlan& b) {
  RunPlan repeated = b;
  repeated.id = a.id;
  repeated.repeat = a.repeat;
  repeated.place = a.place;
  repeated.line = a.line;
  repeated.save = a.save;
  return repeated == a;
}

nlohmann::ordered_json to_json(const RunPlan& plan) {
  nlohmann::ordered_json out = to_json(fields_to_read(plan));
  if (!plan.save.empty()) out["save"] = plan.save;
  return out;
}

RunPlan run_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults) {
  RunPlan plan;
  plan.options = defaults(in.at("scheme").get<std::string>());
  read_json(in, fields_of(plan));
  plan.save = in.value("save", "");
  return plan;
}

}  // namespace ringside
