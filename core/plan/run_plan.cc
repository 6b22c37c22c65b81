#include "core/plan/run_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/plan/kept_plan.h"

namespace ringside {

Fields fields_of(Setting& setting) { return {{"key", &setting.key}, {"value", &setting.value}}; }

Fields fields_of(Published& published) {
  return {{"measure", &published.measure}, {"value", &published.value},
          {"over", &published.over},       {"samples", &published.samples},
          {"fitted", &published.fitted},   {"contradiction", &published.contradiction}};
}

/// The fields of all members except `program`, `plugins`, `homes`, `hosts`, `checkpoint`,
/// `resume`, `faults`, FaultsConfig::struck, those of elastic runs and seats, `until`, `save`,
/// `history`, `lost`, `mesh`, `pipeline`, RunListing::quick, SumTree::unknown_order and
/// SumTree::borders, which are written only for the few runs that have them. The options are those
/// of the plan's scheme.
static Fields fields_of(RunPlan& plan) {
  return {{"experiment", &plan.experiment},
          {"run", &plan.id},
          {"label", &plan.listing.label},
          {"family", &plan.listing.family},
          {"set", Structs(&plan.listing.set)},
          {"swept", Structs(&plan.listing.swept)},
          {"published", Structs(&plan.listing.published)},
          {"purpose", &plan.purpose},
          {"sum_tree", Fields{{"groups", &plan.sums.groups},
                              {"micro_batches", &plan.sums.micro_batches},
                              {"lr", &plan.sums.lr},
                              {"own_order", &plan.sums.own_order},
                              {"each_micro_batch", &plan.sums.each_micro_batch},
                              {"samples", &plan.sums.samples}}},
          {"scheme", &plan.scheme},
          {"options", plan.options.fields()},
          {"promise", &plan.promise},
          {"world", &plan.world},
          {"defines", &plan.defines},
          {"servers", &plan.servers},
          {"expendable", &plan.expendable},
          {"repeat", &plan.repeat},
          {"seeded", &plan.listing.seeded},
          {"target_kind", &plan.listing.target_kind},
          {"target_loss", &plan.listing.target_loss},
          {"line", &plan.listing.line},
          {"place", &plan.listing.place},
          {"model", fields_of(plan.model)},
          {"data", fields_of(plan.data)},
          {"train", fields_of(plan.train)},
          {"optimizer", fields_of(plan.optimizer)},
          {"device", fields_of(plan.device)},
          {"sim", fields_of(plan.sim)},
          {"cluster", Structs(&plan.cluster)},
          {"host_step_us", &plan.host_step_us},
          {"ranks", Structs(&plan.ranks)}};
}

/// Host, kind, and number or identity of a device.
using NumberedDevice = std::tuple<std::string, std::string, std::string>;

static NumberedDevice device_of(const RunPlan& plan, const RankPlan& rank) {
  const RankHome home =
      plan.homes.empty() ? RankHome{} : plan.homes.at(static_cast<std::size_t>(rank.rank));
  return {home.host, device_kind(plan, rank),
          home.device.empty() ? std::to_string(rank.ordinal) : home.device};
}

bool shares_device(const RunPlan& plan) {
  std::set<NumberedDevice> taken;
  for (const RankPlan& rank : plan.ranks)
    if (rank.ordinal >= 0 && !taken.insert(device_of(plan, rank)).second) return true;
  return false;
}

int gpus(const RunPlan& plan) {
  std::set<NumberedDevice> taken;
  for (const RankPlan& rank : plan.ranks)
    if (rank.ordinal >= 0) taken.insert(device_of(plan, rank));
  return static_cast<int>(taken.size());
}

bool share_host(const RunPlan& plan, int rank, int other) {
  return plan.homes.empty() || plan.homes.at(static_cast<std::size_t>(rank)).host ==
                                   plan.homes.at(static_cast<std::size_t>(other)).host;
}

bool spans_hosts(const RunPlan& plan) {
  return std::any_of(plan.homes.begin(), plan.homes.end(),
                     [&](const RankHome& home) { return home.host != plan.homes.front().host; });
}

nlohmann::ordered_json to_json(const RunPlan& plan) {
  nlohmann::ordered_json out = to_json(fields_to_read(plan));
  if (plan.program) out["program"] = to_json(fields_to_read(*plan.program));
  for (const PluginFile& plugin : plan.plugins)
    out["plugins"].push_back(to_json(fields_to_read(plugin)));
  if (!plan.homes.empty()) out["hosts"] = to_json(fields_to_read(plan.hosts));
  for (const RankHome& home : plan.homes) {
    nlohmann::ordered_json& written = out["homes"].emplace_back(to_json(fields_to_read(home)));
    if (!home.device.empty()) written["device"] = home.device;
  }
  if (plan.mesh.pipeline > 1) {
    out["mesh"] = to_json(fields_to_read(plan.mesh));
    out["pipeline"] = to_json(fields_to_read(plan.pipeline));
    if (!plan.pipeline.text.empty()) out["pipeline"]["text"] = plan.pipeline.text;
    if (plan.pipeline.alike != StagesAlike::nothing)
      out["pipeline"]["alike"] = name_of(plan.pipeline.alike);
  }
  if (plan.listing.quick) out["quick"] = true;
  if (plan.sums.unknown_order) out["unknown_order"] = true;
  if (!plan.sums.borders.empty()) out["sum_borders"] = plan.sums.borders;
  if (plan.checkpoint != CheckpointConfig())
    out["checkpoint"] = to_json(fields_to_read(plan.checkpoint));
  if (!plan.resume.empty()) out["resume"] = plan.resume;
  if (plan.faults != FaultsConfig()) out["faults"] = to_json(fields_to_read(plan.faults));
  if (!plan.faults.struck.empty()) out["struck"] = plan.faults.struck;
  if (plan.until > 0) out["until"] = plan.until;
  if (plan.most_world > 0)
    out["elastic"] = {
        {"least", plan.least_world}, {"most", plan.most_world}, {"generation", plan.generation}};
  else if (plan.generation > 0)
    out["process"] = plan.generation;
  for (const HostMemoryFile& file : plan.host_copies)
    out["host_copies"].push_back(to_json(fields_to_read(file)));
  if (!plan.save.empty()) out["save"] = plan.save;
  if (!plan.lost.empty()) out["lost"] = plan.lost;
  for (const ChunkHistory& range : plan.history)
    out["history"].push_back(to_json(fields_to_read(range)));
  return out;
}

static RunPlan read_plan(const nlohmann::json& in, const DefaultOptions& defaults, Absent absent) {
  RunPlan plan;
  plan.options = defaults(in.at("scheme").get<std::string>());
  read_json(in, fields_of(plan), absent);
  if (const auto program = in.find("program"); program != in.end())
    plan.program = read_json<OtherProgram>(*program, absent);
  if (const auto plugins = in.find("plugins"); plugins != in.end())
    for (const nlohmann::json& plugin : *plugins)
      plan.plugins.push_back(read_json<PluginFile>(plugin, absent));
  if (const auto hosts = in.find("hosts"); hosts != in.end())
    read_json(*hosts, fields_of(plan.hosts), absent);
  if (const auto homes = in.find("homes"); homes != in.end())
    for (const nlohmann::json& home : *homes)
      plan.homes.emplace_back(read_json<RankHome>(home, absent)).device = home.value("device", "");
  if (const auto mesh = in.find("mesh"); mesh != in.end())
    read_json(*mesh, fields_of(plan.mesh), absent);
  if (const auto pipeline = in.find("pipeline"); pipeline != in.end()) {
    read_json(*pipeline, fields_of(plan.pipeline), absent);
    plan.pipeline.text = pipeline->value("text", "");
    plan.pipeline.alike =
        value_named<StagesAlike>(pipeline->value("alike", "")).value_or(StagesAlike::nothing);
  }
  plan.listing.quick = in.value("quick", false);
  plan.sums.unknown_order = in.value("unknown_order", false);
  plan.sums.borders = in.value("sum_borders", plan.sums.borders);
  if (const auto checkpoint = in.find("checkpoint"); checkpoint != in.end())
    read_json(*checkpoint, fields_of(plan.checkpoint), absent);
  plan.resume = in.value("resume", "");
  if (const auto faults = in.find("faults"); faults != in.end())
    read_json(*faults, fields_of(plan.faults), absent);
  plan.faults.struck = in.value("struck", plan.faults.struck);
  plan.until = in.value("until", std::int64_t{0});
  plan.generation = in.value("process", std::int64_t{0});
  if (const auto elastic = in.find("elastic"); elastic != in.end()) {
    plan.least_world = elastic->at("least").get<int>();
    plan.most_world = elastic->at("most").get<int>();
    plan.generation = elastic->at("generation").get<std::int64_t>();
  }
  if (const auto copies = in.find("host_copies"); copies != in.end())
    for (const nlohmann::json& file : *copies)
      plan.host_copies.push_back(read_json<HostMemoryFile>(file, absent));
  plan.save = in.value("save", "");
  plan.lost = in.value("lost", std::vector<std::int64_t>());
  if (const auto history = in.find("history"); history != in.end())
    for (const nlohmann::json& range : *history)
      read_json(range, fields_of(plan.history.emplace_back()), absent);
  return plan;
}

RunPlan run_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults) {
  return read_plan(in, defaults, Absent::refused);
}

RunPlan kept_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults) {
  return read_plan(in, defaults, Absent::keeps_default);
}

}  // namespace ringside
