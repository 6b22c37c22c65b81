// The program.
#include <unistd.h>

#include <csignal>
#include <string>

#include "experiments/built_commit.h"
#include "experiments/cli.h"

namespace {

// A signal handler can reach nothing else.
volatile std::sig_atomic_t interrupted = 0;

void interrupt(int) { interrupted = 1; }

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  ringside::Process process{.arguments = {argv + 1, argv + argc},
                            .environment = {},
                            .program = "/proc/self/exe",
                            .built_commit = std::string(ringside::built_commit()),
                            .catch_interrupts = catch_interrupts,
                            .interrupted = [] { return interrupted != 0; }};
  for (char** variable = environ; *variable; ++variable)
    process.environment.emplace_back(*variable);
  return ringside::run_command_line(process);
}
