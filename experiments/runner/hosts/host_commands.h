// Commands that a process of a job runs for the job's leader.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/launch/child_process.h"

namespace ringside::runner {

/// Each runs in a shell, with a folder as its working folder, which is removed when the command has
/// ended, also if this process has ended before.
class HostCommands {
 public:
  /// A command's output, and its status once it has ended.
  struct News {
    int command = 0;
    std::string output{};
    std::optional<int> status{};  // of waitpid(); -1: not known
  };

  HostCommands() = default;
  /// Ends all: asks them to, waits a moment, and kills those that are left.
  ~HostCommands() { end_all(); }
  HostCommands(const HostCommands&) = delete;
  HostCommands& operator=(const HostCommands&) = delete;

  /// `text` is one simple command of a shell, without `exec`. Throws Error if it cannot be started.
  void run(int command, const std::string& text, const std::string& folder,
           std::vector<std::string> environment);
  /// Asks a command to end; does nothing if it has ended.
  void end(int command);
  void end_all();

  std::vector<int> files() const;
  /// The news since the last call; does not block.
  std::vector<News> read();

 private:
  std::map<int, std::unique_ptr<ChildProcess>> running_;
};

}  // namespace ringside::runner
