#include "core/observe/record.h"

#include <nlohmann/json.hpp>

namespace ringside {

nlohmann::ordered_json to_json(const MemoryUse& use) {
  nlohmann::ordered_json out;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    out[std::string(name_of(kind))] = use[kind];
  }
  return out;
}

MemoryUse memory_use_from_json(const nlohmann::json& in) {
  MemoryUse use;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    in.at(std::string(name_of(kind))).get_to(use[kind]);
  }
  return use;
}

nlohmann::ordered_json to_json(const std::optional<DeviceMemory>& memory) {
  if (!memory) return nullptr;
  return {
      {"reserved", memory->reserved}, {"outside", memory->outside}, {"capacity", memory->capacity}};
}

std::optional<DeviceMemory> device_memory_from_json(const nlohmann::json& in) {
  if (in.is_null()) return {};
  return DeviceMemory{in.at("reserved").get<std::int64_t>(), in.at("outside").get<std::int64_t>(),
                      in.at("capacity").get<std::int64_t>()};
}

nlohmann::ordered_json to_json(const std::optional<Staleness>& staleness) {
  if (!staleness) return nullptr;
  return {{"p50", staleness->p50}, {"max", staleness->max}};
}

std::optional<Staleness> staleness_from_json(const nlohmann::json& in) {
  if (in.is_null()) return {};
  return Staleness{in.at("p50").get<double>(), in.at("max").get<double>()};
}

nlohmann::json to_json(const RankRecord& r) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepTime& step : r.steps) {
    nlohmann::json one = {{"total", step.total}};
    for (std::size_t a = 0; a < activities; ++a)
      one[std::string(name_of(static_cast<Activity>(a)))] = step.by_activity[a];
    steps.push_back(std::move(one));
  }
  nlohmann::json evaluations = nlohmann::json::array();
  for (const auto& e : r.evaluations)
    evaluations.push_back({{"step", e.step},
                           {"loss", e.loss},
                           {"first_term", e.first_term},
                           {"accuracy", e.accuracy},
                           {"seconds", e.seconds}});
  nlohmann::json slices = nlohmann::json::array();
  for (const auto& slice : r.slices)
    slices.push_back({slice.activity, slice.name, slice.begin_s, slice.duration_s});
  return {{"rank", r.rank},
          {"role", r.role},
          {"host", r.host},
          {"losses", r.losses},
          {"skipped_steps", r.skipped_steps},
          {"tokens_per_sample", r.tokens_per_sample},
          {"steps", steps},
          {"processor_s", r.processor_s},
          {"serving_optimizer_s", r.serving_optimizer_s},
          {"bytes_sent_per_step", r.bytes_sent_per_step},
          {"bytes_received_per_step", r.bytes_received_per_step},
          {"bytes_computed", r.bytes_computed},
          {"evaluation_s", r.evaluation_s},
          {"evaluation_bytes", {r.evaluation_bytes.sent, r.evaluation_bytes.received}},
          {"at_peak", nlohmann::json(to_json(r.at_peak))},
          {"rss", r.rss},
          {"rss_of_peers", r.rss_of_peers},
          {"device_memory", nlohmann::json(to_json(r.device_memory))},
          {"parameters", r.parameters},
          {"parameter_hash", r.parameter_hash},
          {"minimum_bytes_per_step", r.minimum_bytes_per_step},
          {"evaluations", evaluations},
          {"staleness", nlohmann::json(to_json(r.staleness))},
          {"slices", slices}};
}

RankRecord rank_record_from_json(const nlohmann::json& in) {
  RankRecord r;
  in.at("rank").get_to(r.rank);
  in.at("role").get_to(r.role);
  in.at("host").get_to(r.host);
  in.at("losses").get_to(r.losses);
  in.at("skipped_steps").get_to(r.skipped_steps);
  in.at("tokens_per_sample").get_to(r.tokens_per_sample);
  for (const auto& one : in.at("steps")) {
    StepTime step;
    one.at("total").get_to(step.total);
    for (std::size_t a = 0; a < activities; ++a)
      one.at(std::string(name_of(static_cast<Activity>(a)))).get_to(step.by_activity[a]);
    r.steps.push_back(step);
  }
  in.at("processor_s").get_to(r.processor_s);
  in.at("serving_optimizer_s").get_to(r.serving_optimizer_s);
  in.at("bytes_sent_per_step").get_to(r.bytes_sent_per_step);
  in.at("bytes_received_per_step").get_to(r.bytes_received_per_step);
  in.at("bytes_computed").get_to(r.bytes_computed);
  in.at("evaluation_s").get_to(r.evaluation_s);
  in.at("evaluation_bytes").at(0).get_to(r.evaluation_bytes.sent);
  in.at("evaluation_bytes").at(1).get_to(r.evaluation_bytes.received);
  r.at_peak = memory_use_from_json(in.at("at_peak"));
  in.at("rss").get_to(r.rss);
  in.at("rss_of_peers").get_to(r.rss_of_peers);
  r.device_memory = device_memory_from_json(in.at("device_memory"));
  in.at("parameters").get_to(r.parameters);
  in.at("parameter_hash").get_to(r.parameter_hash);
  in.at("minimum_bytes_per_step").get_to(r.minimum_bytes_per_step);
  for (const auto& e : in.at("evaluations"))
    r.evaluations.push_back({e.at("step").get<std::int64_t>(), e.at("loss").get<double>(),
                             e.at("first_term").get<double>(), e.at("accuracy").get<double>(),
                             e.at("seconds").get<double>()});
  r.staleness = staleness_from_json(in.at("staleness"));
  for (const auto& slice : in.at("slices"))
    r.slices.push_back({slice.at(0).get<std::string>(), slice.at(1).get<std::string>(),
                        slice.at(2).get<double>(), slice.at(3).get<double>()});
  return r;
}

}  // namespace ringside
