// A process that this one starts, watches and ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/launch/rank_output.h"

namespace ringside {

/// Its standard output and error go into a pipe. The process dies with the thread that started it,
/// and at the latest with this object.
class ChildProcess {
 public:
  /// The file that is started comes first in `words`; `variables` are "NAME=VALUE". The child also
  /// has the open file `inherited`, and `input` as its standard input; -1: none. Throws Error,
  /// which calls the process `what` ("a rank"), if the system refuses.
  ChildProcess(const std::string& what, std::vector<std::string> words,
               std::vector<std::string> variables, int inherited = -1, int input = -1);
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
  pid_t pid_ = 0;  // 0 after the end
  std::optional<int> status_;
  RankOutput output_;
};

}  // namespace ringside
