#include "core/launch/rank_host.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>

#include "core/base/error_text.h"
#include "core/launch/process_end.h"

namespace ringside {

bool RankEnd::killed_but_by(int number) const {
  return status && WIFSIGNALED(*status) && WTERMSIG(*status) != number;
}

bool RankEnd::ended_well() const {
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

std::string RankEnd::text(const std::string& step) const {
  if (!status && !cause.empty()) return cause + step;
  const int signal = status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
  const std::string how =
      !status      ? "ended; its exit status is unknown, because something other than the launcher "
                     "collected it"
      : signal > 0 ? "was killed by " + words_for_end(*status)
                   : "ended with " + words_for_end(*status) + " before its work was done";
  return how + step +
         (last_line.empty() ? "" : fmt::format("; the last line that it wrote: {}", last_line)) +
         (memory.empty() ? limit_hint(last_line, signal) : memory);
}

void wait_for_news(const std::vector<RankHost*>& hosts, const std::vector<int>& files,
                   int timeout_ms) {
  constexpr int reap_ms = 1;
  std::vector<pollfd> watched;  // poll() skips entries whose file is negative
  for (const int file : files) watched.push_back({file, POLLIN, 0});
  for (const RankHost* host : hosts) {
    for (const int file : host->files()) watched.push_back({file, POLLIN, 0});
    if (host->expects_end()) timeout_ms = std::min(timeout_ms, reap_ms);
  }
  poll(watched.data(), watched.size(), timeout_ms);
}

}  // namespace ringside
