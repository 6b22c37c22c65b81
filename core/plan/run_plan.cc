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

Fields fields_of(Setting& setting) { return {{"key", &setting.key}, {"value", &setting.value}}; }

/// The fields of all members except `save`, which is written only for the few runs that have it.
/// The options are those of the plan's scheme.
static Fields fields_of(RunPlan& plan) {
  return {{"experiment", &plan.experiment},
          {"run", &plan.id},
          {"label", &plan.label},
          {"family", &plan.family},
          {"set", Structs(&plan.set)},
          {"swept", Structs(&plan.swept)},
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
          {"target_kind", &plan.target_kind},
          {"target_loss", &plan.target_loss},
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
      {"traced_ranks", &config.traced_ranks, "how many ranks, from rank 0 on, the trace shows"},
      {"network_gbit_s", &config.network_gbit_s,
       "rate of each network card of the simulated cluster, in place of the one that the cluster "
       "file names; 0: as the cluster file says"}};
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

namespace {

/// What a run computes. Everything in these structs counts as part of the training but the fields
/// that training_of() gives their defaults.
struct Training {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  bool operator==(const Training&) const = default;
};

Training training_of(const RunPlan& plan) {
  Training out{plan.model, plan.data, plan.train, plan.optimizer, plan.device, plan.sim};
  const auto leave_out = []<class Struct>(Struct& from, auto... members) {
    ((from.*members = Struct{}.*members), ...);
  };
  // These decide the order of the sums and the learning rate, which stand in RunPlan::sums.
  leave_out(out.model, &ModelConfig::batch_norm_group);
  leave_out(out.train, &TrainConfig::micro_batch, &TrainConfig::accumulation, &TrainConfig::reduce);
  leave_out(out.optimizer, &OptimizerConfig::lr, &OptimizerConfig::lr_scaling);
  // train.global_batch says what follows from this.
  leave_out(out.train, &TrainConfig::batch_per_rank);
  // These decide how long a run takes and how much memory it needs.
  leave_out(out.train, &TrainConfig::warmup, &TrainConfig::recompute, &TrainConfig::timeout_s);
  leave_out(out.device, &DeviceConfig::threads, &DeviceConfig::cluster);
  leave_out(out.sim, &SimConfig::message_ranks, &SimConfig::traced_ranks,
            &SimConfig::network_gbit_s);
  if (!plan.cluster) out.sim = {};
  return out;
}

}  // namespace

bool same_training(const RunPlan& a, const RunPlan& b) { return training_of(a) == training_of(b); }

bool must_equal(const RunPlan& run, const RunPlan& definition) {
  if (run.sums != definition.sums || !same_training(run, definition)) return false;
  if (run.promise == Promise::same_run) return definition.scheme == "single";
  return definition.defines == run.world && definition.scheme == run.scheme &&
         definition.options == run.options;
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
