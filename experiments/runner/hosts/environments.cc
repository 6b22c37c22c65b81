#include "experiments/runner/hosts/environments.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json_fields.h"
#include "experiments/runner/hosts/job_hosts.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

/// Members that differ anyway: each process has variables of its launcher.
bool may_differ(const std::string& member) {
  static constexpr std::string_view names[] = {"time", "host", "variables"};
  return std::find(std::begin(names), std::end(names), member) != std::end(names);
}

/// The members of all hosts' environments that must not differ, each once.
std::vector<std::string> members_of(const ordered_json& hosts) {
  std::vector<std::string> out;
  for (const ordered_json& host : hosts)
    for (const auto& [member, value] : host["environment"].items())
      if (!may_differ(member) && std::find(out.begin(), out.end(), member) == out.end())
        out.push_back(member);
  return out;
}

std::string stem_of(const std::string& library) { return library.substr(0, library.find(".so")); }

/// The libraries of this kind that all hosts have loaded, with their versions. The leader loads
/// more than others: what simulates, for instance.
ordered_json shared_libraries(const ordered_json& libraries, const ordered_json& hosts) {
  ordered_json out = ordered_json::array();
  for (const ordered_json& library : libraries) {
    const std::string stem = stem_of(library.get<std::string>());
    if (std::all_of(hosts.begin(), hosts.end(), [&](const ordered_json& host) {
          const ordered_json its = host["environment"].value("libraries", ordered_json::array());
          return std::any_of(its.begin(), its.end(), [&](const ordered_json& one) {
            return stem_of(one.get<std::string>()) == stem;
          });
        }))
      out.push_back(library);
  }
  return out;
}

ordered_json differences(const ordered_json& hosts) {
  ordered_json out = ordered_json::object();
  for (const std::string& member : members_of(hosts)) {
    ordered_json values;
    std::set<nlohmann::json> distinct;  // whatever the order of members
    for (const ordered_json& host : hosts) {
      ordered_json value = host["environment"].value(member, ordered_json());
      if (member == "libraries") value = shared_libraries(value, hosts);
      distinct.insert(value);
      values[host["host"].get<std::string>()] = value;
    }
    if (distinct.size() > 1) out[member] = values;
  }
  return out;
}

}  // namespace

ordered_json with_hosts(const ordered_json& own, const std::vector<AgentFacts>& agents,
                        const std::function<ordered_json(int agent)>& of_agent) {
  ordered_json hosts = ordered_json::array();
  for (const JobHost& its : hosts_of(agents)) {
    const AgentFacts& agent = *its.agents.front();
    ordered_json& host = hosts.emplace_back();
    host["host"] = its.name;
    host["address"] = agent.address;
    host["interface"] = agent.interface;
    host["environment"] = agent.agent == 0 ? own : of_agent(agent.agent);
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

}  // namespace ringside::runner
