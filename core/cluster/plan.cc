#include "core/cluster/plan.h"

#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/fields.h"

namespace ringside {
namespace {

Promise promise_named(const std::string& name) {
  for (const Promise promise : {Promise::same_run, Promise::own_algorithm})
    if (name == name_of(promise)) return promise;
  throw Error("promise = '{}': there are '{}' and '{}'", name, name_of(Promise::same_run),
              name_of(Promise::own_algorithm));
}

}  // namespace

std::string_view name_of(Promise promise) {
  return promise == Promise::same_run ? "same run" : "own algorithm";
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

nlohmann::json to_json(const RunPlan& plan) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankPlan& rank : plan.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"worker", rank.worker},
                     {"server", rank.server},
                     {"device", rank.device},
                     {"ordinal", rank.ordinal},
                     {"environment", rank.environment}});
  return {{"id", plan.id},
          {"experiment", plan.experiment},
          {"scheme", plan.scheme},
          {"options", plan.options},
          {"promise", name_of(plan.promise)},
          {"world", plan.world},
          {"servers", plan.servers},
          {"repeat", plan.repeat},
          {"model", to_json_fields(plan.model)},
          {"data", to_json_fields(plan.data)},
          {"train", to_json_fields(plan.train)},
          {"optimizer", to_json_fields(plan.optimizer)},
          {"device", to_json_fields(plan.device)},
          {"sim", to_json_fields(plan.sim)},
          {"cluster", plan.cluster ? sim::to_json(*plan.cluster) : nlohmann::json()},
          {"save", plan.save},
          {"ranks", ranks}};
}

RunPlan run_plan_from_json(const nlohmann::json& in) {
  RunPlan plan;
  in.at("id").get_to(plan.id);
  in.at("experiment").get_to(plan.experiment);
  in.at("scheme").get_to(plan.scheme);
  plan.options = in.at("options");
  plan.promise = promise_named(in.at("promise").get<std::string>());
  in.at("world").get_to(plan.world);
  in.at("servers").get_to(plan.servers);
  in.at("repeat").get_to(plan.repeat);
  plan.model = from_json_fields<ModelConfig>(in.at("model"));
  plan.data = from_json_fields<DataConfig>(in.at("data"));
  plan.train = from_json_fields<TrainConfig>(in.at("train"));
  plan.optimizer = from_json_fields<OptimizerConfig>(in.at("optimizer"));
  plan.device = from_json_fields<DeviceConfig>(in.at("device"));
  plan.sim = from_json_fields<SimConfig>(in.at("sim"));
  if (const auto& cluster = in.at("cluster"); !cluster.is_null())
    plan.cluster = sim::cluster_from_json(cluster);
  plan.save = in.value("save", "");
  for (const auto& rank : in.at("ranks"))
    plan.ranks.push_back({rank.at("rank").get<int>(), rank.at("worker").get<int>(),
                          rank.at("server").get<int>(), rank.value("device", ""),
                          rank.value("ordinal", -1),
                          rank.value("environment", std::vector<std::string>{})});
  return plan;
}

}  // namespace ringside
