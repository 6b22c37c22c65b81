// The hosts of a job, with names that people know.
#pragma once

#include <string>
#include <vector>

#include "experiments/runner/hosts/agent_facts.h"

namespace ringside::runner {

struct JobHost {
  std::string name;
  std::vector<const AgentFacts*> agents;  // by number; never empty
};

/// The hosts in the order of their first agents. Hosts with equal names get numbers: "node",
/// "node#2". `agents` outlives what is returned.
std::vector<JobHost> hosts_of(const std::vector<AgentFacts>& agents);

/// In one line: "host0 10.0.0.1: agents 0 (leads), 1; host1 10.0.0.2: agents 2, 3".
std::string text_of(const std::vector<AgentFacts>& agents);

}  // namespace ringside::runner
