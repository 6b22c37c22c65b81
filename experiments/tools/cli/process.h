// The process of the program: its arguments, environment and signals.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ringside::tools::cli {

/// The arguments, environment and signals of this process.
struct Process {
  std::vector<std::string> arguments;    // without the program's name
  std::vector<std::string> environment;  // "NAME=value"
  /// Variables that were taken out of it, and that no other process gets (thread_binding.h).
  std::vector<std::string> thread_binding{};
  std::string program;       // path that starts the program again
  std::string built_commit;  // see experiments/tools/cli/built_commit.h
  /// After this call, the first signal to stop only makes interrupted() return true, and the second
  /// one ends the process. Rank processes do not call this function: the first signal ends them.
  std::function<void()> catch_interrupts;
  std::function<bool()> interrupted;
  /// Whether it was a scheduler's signal (SIGTERM, SIGUSR1), and not Ctrl-C.
  std::function<bool()> told_to_stop = [] { return false; };
};

}  // namespace ringside::tools::cli
