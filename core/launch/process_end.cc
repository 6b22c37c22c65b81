#include "core/launch/process_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/seconds_now.h"

namespace ringside {

std::optional<int> wait_for_process(pid_t process, double timeout_s) {
  const double end = seconds_now() + timeout_s;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(process, &status, timeout_s < 0 ? 0 : WNOHANG);
    if (ended == process) return status;
    if (ended < 0 && errno != EINTR) return {};
    if (ended == 0 && seconds_now() >= end) return {};
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string words_for_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace ringside
