// The main program.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "experiments/tools/cli/built_commit.h"
#include "experiments/tools/cli/cli.h"
#include "experiments/tools/cli/thread_binding.h"

namespace {

// A global variable, because a signal handler can reach nothing else.
volatile std::sig_atomic_t interrupted = 0;

// Variables that were taken out of the environment: global, because they are taken before main().
std::array<const char*, 8> taken{};
std::size_t taken_count = 0;

void take_before_libraries_begin(int, char**, char** environment) {
  taken_count = ringside::tools::cli::take_thread_binding(environment, taken);
}
// The loader calls the functions in this section before the constructors of any library.
__attribute__((section(".preinit_array"),
               used)) void (*const before_libraries)(int, char**,
                                                     char**) = take_before_libraries_begin;

/// The first interruption lets the work end in good order. The second one ends the program at once,
/// and its ranks die with it.
void interrupt(int signal) {
  constexpr int was_interrupted = 130;
  if (interrupted != 0) _exit(was_interrupted);
  interrupted = signal;
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);  // schedulers send it some time before the end
  // A script that starts the program in its background does not want Ctrl-C to end the program.
  struct sigaction inherited {};
  sigaction(SIGINT, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
}

/// Resets the signals, so that the program works in whatever state its parent left them.
void take_default_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(
      SIGCHLD,
      SIG_DFL);  // if SIGCHLD is ignored, the launcher cannot learn the exit status of ranks
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);  // write() then fails if a file grows over the size limit, and the
                                  // program can name the file in its error
}

/// ZeroMQ allocates the memory of every frame that it receives. By default the C library gives
/// memory of this size back to the system when it is freed, and the system has to clear it again
/// for the next frame, which takes longer than to receive the frame.
void keep_freed_memory() {
  constexpr int largest_threshold = 32 << 20;  // of glibc on machines of 64 bits
  constexpr int most_kept = 256 << 20;
  mallopt(M_MMAP_THRESHOLD, largest_threshold);
  mallopt(M_TRIM_THRESHOLD, most_kept);
}

/// Opens /dev/null in place of every closed standard stream, whose number would otherwise go to a
/// socket or a file. /dev/null is opened for the wrong direction, so that writing to a closed
/// stream stays an error.
void fill_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0)
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  take_default_signals();
  fill_standard_streams();
  keep_freed_memory();
  ringside::tools::cli::Process process{
      .arguments = {argv + 1, argv + argc},
      .environment = {},
      .thread_binding = {taken.begin(), taken.begin() + taken_count},
      .program = "/proc/self/exe",
      .built_commit = std::string(ringside::tools::cli::built_commit()),
      .catch_interrupts = catch_interrupts,
      .interrupted = [] { return interrupted != 0; },
      .told_to_stop = [] { return interrupted == SIGTERM || interrupted == SIGUSR1; }};
  for (char** variable = environ; *variable; ++variable)
    process.environment.emplace_back(*variable);
  return ringside::tools::cli::run_command_line(process);
}
