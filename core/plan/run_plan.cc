#include "core/plan/run_plan.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"

namespace ringside {
namespace {

Promise promise_named(const std::string& name) {
  for (const Promise promise : {Promise::same_run, Promise::own_algorithm})
    if (name == name_of(promise)) return promise;
  throw Error("promise = '{}': choose '{}' or '{}'", name, name_of(Promise::same_run),
              name_of(Promise::own_algorithm));
}

Purpose purpose_named(const std::string& name) {
  for (const Purpose purpose : {Purpose::asked, Purpose::reference, Purpose::all_cores})
    if (name == name_of(purpose)) return purpose;
  throw Error("purpose = '{}': choose '{}', '{}' or '{}'", name, name_of(Purpose::asked),
              name_of(Purpose::reference), name_of(Purpose::all_cores));
}

}  // namespace

std::string_view name_of(Promise promise) {
  return promise == Promise::same_run ? "same run" : "own algorithm";
}

Fields fields_of(SimConfig& config) {
  return {
      {"numerics", &config.numerics,
       "compute for real too: the losses and the hash of a run on the CPU"},
      {"message_ranks", &config.message_ranks,
       "collectives of up to so many ranks run message by message, of more as equivalent flows"},
      {"traced_ranks", &config.traced_ranks, "the trace shows the first so many ranks"}};
}

Fields fields_of(DeviceConfig& config) {
  return {{"kind", &config.kind, "which device (see `ringside list`)"},
          {"threads", &config.threads, "cpu: threads a rank computes with"},
          {"tf32", &config.tf32,
           "cuda, sim: products of fp32 on tensor cores, with 10 bits of mantissa"},
          {"cluster", &config.cluster,
           "cluster file: sim: what is simulated; else this machine, as `ringside calibrate` "
           "measured it, for predictions"}};
}

std::string_view name_of(Purpose purpose) {
  if (purpose == Purpose::all_cores) return "all cores";
  return purpose == Purpose::reference ? "reference" : "asked";
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

nlohmann::json to_json(const SumTree& sums) {
  return {{"groups", sums.groups}, {"micro_batches", sums.micro_batches}, {"lr", sums.lr}};
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
          {"label", plan.label},
          {"purpose", name_of(plan.purpose)},
          {"line", plan.line},
          {"place", plan.place},
          {"sum_tree", to_json(plan.sums)},
          {"experiment", plan.experiment},
          {"scheme", plan.scheme},
          {"options", to_json(plan.options.fields())},
          {"promise", name_of(plan.promise)},
          {"world", plan.world},
          {"servers", plan.servers},
          {"repeat", plan.repeat},
          {"model", to_json(fields_to_read(plan.model))},
          {"data", to_json(fields_to_read(plan.data))},
          {"train", to_json(fields_to_read(plan.train))},
          {"optimizer", to_json(fields_to_read(plan.optimizer))},
          {"device", to_json(fields_to_read(plan.device))},
          {"sim", to_json(fields_to_read(plan.sim))},
          {"cluster", plan.cluster ? sim::to_json(*plan.cluster) : nlohmann::json()},
          {"save", plan.save},
          {"ranks", ranks}};
}

RunPlan run_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults) {
  RunPlan plan;
  in.at("id").get_to(plan.id);
  in.at("label").get_to(plan.label);
  plan.purpose = purpose_named(in.at("purpose").get<std::string>());
  in.at("line").get_to(plan.line);
  in.at("place").get_to(plan.place);
  const auto& sums = in.at("sum_tree");
  plan.sums = {sums.at("groups").get<std::int64_t>(), sums.at("micro_batches").get<std::int64_t>(),
               sums.at("lr").get<double>()};
  in.at("experiment").get_to(plan.experiment);
  in.at("scheme").get_to(plan.scheme);
  plan.options = defaults(plan.scheme);
  read_json(in.at("options"), plan.options.fields());
  plan.promise = promise_named(in.at("promise").get<std::string>());
  in.at("world").get_to(plan.world);
  in.at("servers").get_to(plan.servers);
  in.at("repeat").get_to(plan.repeat);
  plan.model = read_json<ModelConfig>(in.at("model"));
  plan.data = read_json<DataConfig>(in.at("data"));
  plan.train = read_json<TrainConfig>(in.at("train"));
  plan.optimizer = read_json<OptimizerConfig>(in.at("optimizer"));
  plan.device = read_json<DeviceConfig>(in.at("device"));
  plan.sim = read_json<SimConfig>(in.at("sim"));
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
