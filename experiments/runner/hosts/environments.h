// The environments of all hosts of a job.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/runner/hosts/agent_facts.h"

namespace ringside::runner {

/// Returns `own`, the environment of this process (describe_environment()), which is agent 0, with
/// two more members. "hosts" lists the environments of all hosts of the job. "hosts_differ" stands
/// first: for each member in which they differ, its value on every host (null where a host lacks
/// it). Of "libraries" it has only those that all hosts have loaded in some version. Hosts have the
/// names of hosts_of(). `of_agent` returns the environment of another agent; it is called for one
/// agent of each other host, and its exceptions pass through.
nlohmann::ordered_json with_hosts(const nlohmann::ordered_json& own,
                                  const std::vector<AgentFacts>& agents,
                                  const std::function<nlohmann::ordered_json(int agent)>& of_agent);

/// One line about what differs between hosts in such an environment; empty if nothing does.
std::string text_of_differences(const nlohmann::ordered_json& environment);

}  // namespace ringside::runner
