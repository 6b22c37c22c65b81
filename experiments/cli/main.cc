// The program.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "experiments/cli/built_commit.h"
#include "experiments/cli/cli.h"

namespace {

// A signal handler can reach nothing else.
volatile std::sig_atomic_t interrupted = 0;

/// The first interruption ends the work in good order, the second one the program: its ranks die
/// with it.
void interrupt(int) {
  constexpr int was_interrupted = 130;
  if (interrupted != 0) _exit(was_interrupted);
  interrupted = 1;
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  // Whoever started the program in the background of a script does not want its Ctrl-C to end it.
  struct sigaction inherited {};
  sigaction(SIGINT, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
}

/// The program works in whatever state its parent left signals.
void take_default_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it keeps the exit status of ranks from their launcher
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is then an error of write(), with a name
}

/// A standard stream that was closed would give its number to a socket or a file. /dev/null is
/// opened the wrong way round: what is written to a closed stream is an error.
void fill_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0)
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  take_default_signals();
  fill_standard_streams();
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
