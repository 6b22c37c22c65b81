#include "experiments/runner/hosts/job_hosts.h"

#include <fmt/ranges.h>

#include <map>

namespace ringside::runner {

std::vector<JobHost> hosts_of(const std::vector<AgentFacts>& agents) {
  std::vector<JobHost> hosts;
  std::map<std::string, std::size_t> known;  // by identity
  std::map<std::string, int> called;         // by name
  for (const AgentFacts& agent : agents) {
    const auto [position, is_new] = known.try_emplace(agent.host_identity, hosts.size());
    if (is_new) {
      const int number = ++called[agent.host];
      hosts.push_back({number == 1 ? agent.host : fmt::format("{}#{}", agent.host, number), {}});
    }
    hosts[position->second].agents.push_back(&agent);
  }
  return hosts;
}

std::string text_of(const std::vector<AgentFacts>& agents) {
  std::vector<std::string> hosts;
  for (const JobHost& host : hosts_of(agents)) {
    std::vector<std::string> numbers;
    for (const AgentFacts* agent : host.agents)
      numbers.push_back(fmt::format("{}{}{}", agent->agent, agent->agent == 0 ? " (leads)" : "",
                                    agent->slots > 1 ? fmt::format(" x{}", agent->slots) : ""));
    hosts.push_back(fmt::format("{} {}: agents {}", host.name, host.agents.front()->address,
                                fmt::join(numbers, ", ")));
  }
  return fmt::format("{}", fmt::join(hosts, "; "));
}

}  // namespace ringside::runner
