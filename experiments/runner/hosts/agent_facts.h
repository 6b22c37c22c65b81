// Facts about themselves that the agents of a job send to its leader.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// One process of a job that starts ranks.
struct AgentFacts {
  int agent = 0, agents = 1;  // its number, and how many there are
  std::int64_t process = 0;   // its number on its host
  std::string host{};         // the host's name, for people
  /// Equal for processes that see each other's memory and loopback interface, and for no others:
  /// the boot of the system, and the namespaces of processes and networks.
  std::string host_identity{};
  std::string address{};     // an IPv4 address at which other hosts reach the process's ranks
  std::string interface {};  // that has the address
  int slots = 1;             // how many ranks it may start at once
  std::vector<std::int64_t> cores{};  // that it may use, by number; empty: not known
  std::int64_t memory = 0;            // bytes that it may use (allowed_memory()); 0: not known
  std::string commit{}, program{};    // that the program was built from; a hash of its file
  std::string experiment{};           // a digest of the experiment file and its settings
  /// "agent 3 on host1 (10.0.0.2)"
  std::string name() const;
};

Fields fields_of(AgentFacts& facts);

/// The devices of one kind that an agent's process sees (DeviceRow::devices), or why it has none.
struct AgentDevices {
  std::vector<std::string> seen{};
  std::string cause{};
};

/// Examines this process's devices.
AgentDevices devices_of_this_process(const std::string& kind);

/// The devices of all agents, by agent. Throws Error if an agent does not answer.
using DevicesOfAgents = std::function<std::vector<AgentDevices>(const std::string& kind)>;

/// Facts that this process can find out: process, host, cores, memory and program.
AgentFacts facts_of_this_process(const std::filesystem::path& program);

/// A digest of the content of files, and of the settings that are given besides.
std::string digest_of(const std::vector<std::string>& files,
                      const std::vector<std::string>& settings);

/// A digest of the data and weights that the runs read: of the names and the content of all files
/// (experiments/runner/results/content_digest.h).
std::string digest_of_data(const std::vector<RunPlan>& runs);

/// Throws Error with both values if the process cannot be part of the job that `leader` leads.
void check_fits(const AgentFacts& leader, const AgentFacts& agent);

}  // namespace ringside::runner
