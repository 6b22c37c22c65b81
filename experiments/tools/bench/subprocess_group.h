// Programs of others under a keeper process, which ends them and everything that they have started.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/rank_output.h"

namespace ringside::tools::bench {

/// A program of PATH, or a path, and its arguments.
using CommandLine = std::vector<std::string>;

/// Programs that run at the same time, kept by a process of their own, the keeper. A second after
/// one of them has failed, or as soon as this object or this process ends, in whatever way, the
/// keeper ends the others and everything that they have started, and removes `folder`. Must be made
/// while this process has one thread.
class SubprocessGroup {
 public:
  SubprocessGroup(const std::vector<CommandLine>& programs, std::filesystem::path folder);
  /// Ends the programs: SIGTERM, after 2 seconds SIGKILL.
  ~SubprocessGroup();
  SubprocessGroup(const SubprocessGroup&) = delete;
  SubprocessGroup& operator=(const SubprocessGroup&) = delete;

  /// Waits at most so long for the end of the programs; returns whether they have ended.
  bool wait(double timeout_s);
  /// The last output of the programs and how they ended, as one line of at most a few hundred
  /// characters.
  std::string last_words();
  /// Reads the programs' output so far: a program blocks when its output is not read.
  void listen();

 private:
  pid_t keeper_ = 0;
  std::optional<int> status_;
  RankOutput output_;
  std::string said_;
};

}  // namespace ringside::tools::bench
