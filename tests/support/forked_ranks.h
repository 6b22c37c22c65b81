// Ranks as processes that a test forks.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

namespace ringside::testing {

/// Runs `body` in one process for each rank. Returns the exit codes of the processes: what `body`
/// returned, 1 if it threw, 128 + the signal for a process that was killed.
inline std::vector<int> exits_of_forked(int size, const std::function<int(int rank)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    int code = 1;
    try {
      code = body(rank);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    }
    _exit(code);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

}  // namespace ringside::testing
