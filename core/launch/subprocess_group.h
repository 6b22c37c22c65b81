// Other programs under a keeper process, which ends them and everything that they have started.
#pragma once

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/child_process.h"
#include "core/launch/local_host.h"

namespace ringside {

/// A program of PATH, or a path, and its arguments.
using CommandLine = std::vector<std::string>;

/// Programs that run at the same time, kept by a process of their own, the keeper. A second after
/// one of them has failed, or as soon as this object or this process ends, in whatever way, the
/// keeper ends the others and everything that they have started, and removes `folder`.
class SubprocessGroup {
 public:
  /// `keeper` is this program, whose arguments are replaced by those of keep(). Throws Error.
  SubprocessGroup(const RankProgram& keeper, const std::vector<CommandLine>& programs,
                  std::filesystem::path folder);
  /// Ends the programs: SIGTERM, after 2 seconds SIGKILL.
  ~SubprocessGroup();
  SubprocessGroup(const SubprocessGroup&) = delete;
  SubprocessGroup& operator=(const SubprocessGroup&) = delete;

  /// Asks the programs to end, as the destructor does; does not wait for that.
  void end() { keeper_->signal(SIGTERM); }
  /// Whether the programs have ended; waits at most `timeout_s` for their end.
  bool wait(double timeout_s);
  /// The end of the keeper, as waitpid() tells it; none if it is not known. The keeper's exit code
  /// is the first status of a program that is not 0, 128 more than the number of a signal.
  const std::optional<int>& status() const { return keeper_->status(); }
  /// Can be read while there is output.
  int file() const { return keeper_->output().file(); }
  /// The programs' output since the last call. A program blocks when its output is not read.
  std::string read();
  /// The last output of the programs and how they ended, as one line of at most a few hundred
  /// characters. Waits for their end, 5 s at most: a keeper hears first of the end of one, and then
  /// ends the others.
  std::string cause_of_end();

 private:
  std::filesystem::path folder_;
  std::optional<ChildProcess> keeper_;
  std::string said_;
};

inline constexpr const char* keep_command_name = "keep";

/// The main function of the keeper. `words` are the folder and the programs as JSON. Returns the
/// exit status: that of the first program that failed, if one did.
int keep(const std::vector<std::string>& words);

}  // namespace ringside
