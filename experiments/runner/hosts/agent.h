// The agent of a job: a process that starts ranks for the job's leader.
#pragma once

#include <functional>
#include <string>

#include "core/launch/local_host.h"
#include "experiments/runner/hosts/agent_facts.h"
#include "experiments/runner/hosts/rendezvous.h"

namespace ringside::runner {

struct AgentStart {
  Rendezvous rendezvous;
  /// Without an address, the process takes the one by which it reaches the leader.
  AgentFacts facts;
  double join_timeout_s = 60;
  double unheard_s = 5;  // after which a silent leader's host is given up
  RankProgram program;   // that runs as a rank
  /// After the first signal to stop, the leader has a moment to end the job in good order.
  std::function<bool()> interrupted;
  /// Gets one line about what happens meanwhile.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// Joins the job, and starts ranks at the requests of its leader until the leader ends the job.
/// Blocks. Throws Error if the process is refused, or if the job ends in another way; no rank is
/// left then.
void run_agent(const AgentStart& start);

}  // namespace ringside::runner
