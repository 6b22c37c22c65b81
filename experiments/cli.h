// The command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ringside {

/// What the system gave this process.
struct Process {
  std::vector<std::string> arguments;    // without the program's name
  std::vector<std::string> environment;  // "NAME=value"
  std::string program;                   // how to start it again
  /// From then on a request to stop does not end the process, but makes `interrupted` true.
  /// Ranks do without: they end at once.
  std::function<void()> catch_interrupts;
  std::function<bool()> interrupted;
};

/// Does what the arguments say; blocks until it is done. Returns the exit status: 0; 1 if a run
/// failed; 2 for wrong input, with one line on standard error and nothing written; 130 if it was
/// interrupted.
int run_command_line(const Process& process);

}  // namespace ringside
