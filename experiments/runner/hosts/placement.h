// Placement of a run's ranks on the agents of a job.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/runner/hosts/agent_facts.h"

namespace ringside::runner {

/// The room for ranks on one host of a job.
struct HostRoom {
  int slots = 0;
  std::int64_t cores = 0;  // that its agents may use together; 0: not known
};

/// In the order of the hosts' first agents; without those that only lead.
std::vector<HostRoom> rooms_of(const std::vector<AgentFacts>& agents);

/// Gives the ranks of all runs on real devices their homes (RunPlan::homes) by the rules of
/// RunPlan::hosts, their devices and their environments. A worker takes one slot of an agent;
/// dedicated servers take none. Consecutive agents of a host pool their slots in order. Throws
/// Error for a run that does not fit, before anything is started: more workers than slots, workers
/// on CPUs that keep more of the model's state (state_formula()) than their host has memory, no
/// host without workers for servers apart, a rank whose agent has no device of its kind, ranks on
/// several hosts of which two share a device, or a scheme that another program runs on several
/// hosts. Calls `devices` once for each kind whose devices have numbers.
void place_on_hosts(std::vector<RunPlan>& runs, const std::vector<AgentFacts>& agents,
                    const DevicesOfAgents& devices);

/// The run at the largest of its worlds (RunPlan::worlds; its own if it has no others) for which
/// the agents that are not `gone` have slots, placed on these as place_on_hosts() does. Throws
/// Error that says who is gone, how many slots are left, and what to do, if there is no such world.
RunPlan place_on_left(const RunPlan& run, const std::vector<AgentFacts>& agents,
                      const std::set<int>& gone, const DevicesOfAgents& devices);

/// In words, as the end of a run that must not move: "agent 1 on host1 is gone, and 2 slots are
/// left (host0 2)".
std::string words_for_left(const std::vector<AgentFacts>& agents, const std::set<int>& gone);

}  // namespace ringside::runner
