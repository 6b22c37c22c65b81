#include "experiments/hosts/environments.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json_fields.h"

namespace ringside {
namespace {

using nlohmann::ordered_json;

/// Members that differ anyway: each process has variables of its launcher.
bool may_differ(const std::string& member) {
  static constexpr std::string_view names[] = {"time", "host", "variables"};
  return std::find(std::begin(names), std::end(names), member) != std::end(names);
}

ordered_json differences(const ordered_json& hosts) {
  ordered_json out = ordered_json::object();
  for (const auto& [member, first] : hosts.front()["environment"].items()) {
    if (may_differ(member)) continue;
    ordered_json values;
    bool differs = false;
    for (const ordered_json& host : hosts) {
      const ordered_json value = host["environment"].value(member, ordered_json());
      // What has come from another host has lost the order of its members.
      differs |= nlohmann::json(value) != nlohmann::json(first);
      values[host["host"].get<std::string>()] = value;
    }
    if (differs) out[member] = values;
  }
  return out;
}

}  // namespace

ordered_json with_hosts(const ordered_json& own, const Job& job, bool gpus) {
  ordered_json hosts = ordered_json::array();
  std::set<std::string> known;
  for (const AgentFacts& agent : job.agents()) {
    if (!known.insert(agent.host_identity).second) continue;
    ordered_json& host = hosts.emplace_back();
    host["host"] = agent.host;
    host["address"] = agent.address;
    host["interface"] = agent.interface;
    host["environment"] = agent.agent == 0 ? own : job.environment(agent.agent, gpus);
  }
  ordered_json out;
  out["hosts_differ"] = differences(hosts);
  out.update(own);
  out["hosts"] = hosts;
  return out;
}

std::string text_of_differences(const ordered_json& environment) {
  std::vector<std::string> out;
  for (const auto& [member, values] : environment["hosts_differ"].items()) {
    std::vector<std::string> of_hosts;
    for (const auto& [host, value] : values.items())
      of_hosts.push_back(
          fmt::format("{} has {}", host, value.is_array() ? "others" : value.dump()));
    out.push_back(fmt::format("{}: {}", member, fmt::join(of_hosts, ", ")));
  }
  return out.empty() ? "" : fmt::format("Hosts differ in {}", fmt::join(out, "; "));
}

}  // namespace ringside
