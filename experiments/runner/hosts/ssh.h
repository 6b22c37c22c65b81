// Agents that this program starts through ssh.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "core/launch/child_process.h"

namespace ringside::runner {

struct SshHost {
  std::string name;  // as ssh knows it
  int slots = 1;     // how many ranks may be started there at once
};

/// The hosts of "a:4,b:4" or "a,b". Throws Error for anything else, and for a host that is named
/// twice.
std::vector<SshHost> hosts_given(const std::string& list);

struct SshStart {
  std::vector<SshHost> hosts;
  /// A program that runs a command on a host, and its options, such as {"ssh", "-p", "2222"}; gets
  /// the host's name and the command. Found in PATH.
  std::vector<std::string> ssh = {"ssh"};
  /// Makes the command of the agent on host i of `hosts`, as a shell reads it.
  std::function<std::string(std::size_t host)> command;
  /// The standard input of the agents.
  std::string input;
  std::vector<std::string> environment;  // of ssh: "NAME=value"
};

/// The processes of ssh, one a host.
class SshAgents {
 public:
  /// Throws Error if ssh cannot be started.
  explicit SshAgents(const SshStart& start);
  /// As finish().
  ~SshAgents() { finish(); }
  SshAgents(const SshAgents&) = delete;
  SshAgents& operator=(const SshAgents&) = delete;

  /// Throws Error if a process of ssh has ended. The error names the host, and quotes the last line
  /// of output there. To be called while agents are awaited.
  void check();
  /// Blocks until all have ended, at most 3 s, and ends the rest. Returns the output of agents and
  /// ssh, at most 1 MB of each. To be called once the job is over.
  std::string finish();

 private:
  struct Agent {
    Agent(const std::string& name, std::vector<std::string> words,
          const std::vector<std::string>& environment, int input)
        : host(name), process("ssh to " + name, std::move(words), environment, {.input = input}) {}
    std::string host;
    ChildProcess process;
  };
  std::list<Agent> agents_;
};

}  // namespace ringside::runner
