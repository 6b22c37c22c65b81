#include "core/launch/process_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

namespace ringside {

std::string words_for_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace ringside
