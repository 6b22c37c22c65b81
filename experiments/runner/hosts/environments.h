// The environments of all hosts of a job.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/runner/hosts/agent_facts.h"

namespace ringside::runner {

/// `own` is the environment of this process (describe_environment()), which is agent 0, and
/// `of_agent` gives that of another agent. Returns `own` with those of all hosts of the job:
/// "hosts", a list, and, before everything else, "hosts_differ": of each member in which
/// environments differ, its value on every host (null where a host lacks it); of "libraries", those
/// that all have loaded in some version. Hosts have the names of hosts_of(). Calls `of_agent` for
/// one agent of each host, and throws what it throws.
nlohmann::ordered_json with_hosts(const nlohmann::ordered_json& own,
                                  const std::vector<AgentFacts>& agents,
                                  const std::function<nlohmann::ordered_json(int agent)>& of_agent);

/// One line about what differs between hosts in such an environment; empty if nothing does.
std::string text_of_differences(const nlohmann::ordered_json& environment);

}  // namespace ringside::runner
