// A job of several processes, as its leader sees it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/launch/local_host.h"
#include "core/launch/remote_host.h"
#include "core/launch/run_sidecar.h"
#include "experiments/runner/hosts/agent_facts.h"
#include "experiments/runner/hosts/member_host.h"
#include "experiments/runner/hosts/rendezvous.h"

namespace ringside::runner {

struct JobStart {
  Rendezvous rendezvous;
  AgentFacts facts;  // of this process, which is agent 0
  double join_timeout_s = 60;
  double unheard_s = 5;  // after which a host that does not answer is given up
  RankProgram program;   // that runs as a rank
  std::function<bool()> interrupted;
  /// Gets a line about every process that is refused.
  std::function<void(const std::string&)> say;
  /// Called while agents are awaited; throws Error if one cannot join.
  std::function<void()> check = [] {};
  /// Called once the leader listens.
  std::function<void(int port)> on_listening = [](int) {};
};

/// The agents of a job. The destructor ends them, and everything that they have started.
class Job {
 public:
  /// Blocks until all agents have joined. After the deadline throws Error that names the missing
  /// agents and lists the others; throws at once if an agent does not fit.
  explicit Job(const JobStart& start);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// By number.
  const std::vector<AgentFacts>& agents() const { return agents_; }
  /// The hosts that start ranks, by number of the agent; this process for agent 0.
  std::vector<RankHost*> hosts();
  /// The sidecar of a run; null if it needs none. Throws Error.
  std::unique_ptr<RunSidecar> sidecar(const RunPlan& plan);
  /// The devices of this kind that each agent sees; blocks until all agents that start ranks have
  /// answered. Throws Error if one does not answer.
  std::vector<AgentDevices> devices(const std::string& kind) const;
  /// Throws Error if an agent has no module for the MPI of a run; blocks until all have answered.
  void check_mpi(const std::vector<RunPlan>& runs) const;
  /// Throws Error with both digests if an agent sees other data than this process does; blocks
  /// until all have looked.
  void check_data(const std::vector<RunPlan>& runs) const;
  /// The environment of another agent's process (describe_environment()); blocks until the agent
  /// has answered. Throws Error if it does not.
  nlohmann::ordered_json environment(int agent, bool gpus) const;
  /// The agents that cannot be reached any more, as text; empty if all can.
  std::string lost() const;
  /// A run of which some agents are gone, on those that are left (place_on_left() in
  /// experiments/runner/hosts/placement.h). Throws Error if that cannot be, or if runs of this job
  /// do not move. Looks at the agents, and does not block unless devices have numbers.
  RunPlan place_on_left(const RunPlan& run, bool moves) const;
  /// Whether one of them was lost while it had nothing to do, which no run notices.
  bool lost_idle() const;

 private:
  class Muster;

  std::vector<AgentFacts> agents_;
  std::vector<std::string> environment_;
  MemberHost own_;
  std::unique_ptr<ps::StreamListener> listener_;
  std::vector<std::unique_ptr<RemoteHost>> others_;  // agent i is others_[i - 1]
};

}  // namespace ringside::runner
