// A child process that this one starts, watches and ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ringside {

/// The standard output and error of a rank: a pipe. The launcher keeps the reading end, and the
/// rank's process writes to the other end.
class RankOutput {
 public:
  /// Throws Error if the process may not open more files.
  RankOutput();
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// Called in the rank's process after fork(): async-signal-safe.
  void become_standard_streams() const;
  /// Called in the launcher after fork().
  void keep_reading_end();

  /// The number to pass to poll(); -1 after the end of the output.
  int file() const { return file_; }
  /// Returns the output that has arrived; does not block.
  std::string read();
  /// The last line so far that is not empty, cut to a length that fits into an error message.
  const std::string& last_line() const { return last_line_; }

 private:
  void remember(const std::string& text);

  int file_ = -1, writing_end_ = -1;
  std::string line_, last_line_;
};

struct ChildOptions {
  std::vector<int> inherited{};  // open files that the child has too, under the same numbers
  int input = -1;                // its standard input; -1: that of this process
  /// The child begins a group of processes, which ends with it. When the thread that started it
  /// dies, the child is asked to end (SIGTERM) instead of being killed, so that it can tidy up.
  bool own_group = false;
};

/// A process whose standard output and error go into a pipe. It dies with the thread that started
/// it, and at the latest with this object.
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
  /// Whether the process was stopped (true) or goes on (false) since the last call; none: neither.
  std::optional<bool> stood();
  /// Collects the exit status if the process has ended; returns whether it has.
  bool reap();
  /// The exit status after the end, as waitpid() gives it; none if another caller has collected it.
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
