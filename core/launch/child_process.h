// A child process that this one starts, watches and ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/launch/rank_output.h"

namespace ringside {

struct ChildOptions {
  std::vector<int> inherited{};  // open files that the child has too, under the same numbers
  int input = -1;                // its standard input; -1: that of this process
  /// The child begins a group of processes, which ends with it. When the thread that started it
  /// dies, the child is asked to end (SIGTERM) instead of being killed, so that it can tidy up.
  bool own_group = false;
};

/// Its standard output and error go into a pipe. The process dies with the thread that started it,
/// and at the latest with this object.
class ChildProcess {
 public:
  /// The file that is started comes first in `words`; `variables` are "NAME=VALUE". Throws Error,
  /// which calls the process `what` ("a rank"), if the system refuses.
  ChildProcess(const std::string& what, std::vector<std::string> words,
               std::vector<std::string> variables, const ChildOptions& options = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void signal(int number) const;
  /// Collects the exit status if the process has ended; returns whether it has.
  bool reap();
  /// Of a process that has ended, as waitpid() tells it; none if something else has collected it.
  const std::optional<int>& status() const { return status_; }
  RankOutput& output() { return output_; }
  const RankOutput& output() const { return output_; }

 private:
  /// Ends the processes that are left of the child's group. The child's number is not yet reused.
  void end_group() const;

  pid_t pid_ = 0;  // 0 after the end
  bool own_group_ = false;
  std::optional<int> status_;
  RankOutput output_;
};

}  // namespace ringside
