// The options of commands that run under a launcher, or that act as one.
#pragma once

#include <string>

#include "experiments/tools/cli/cli_options.h"

namespace ringside::tools::cli {

struct JobArguments {
  std::string keys{};  // "-": from standard input
  std::string advertise{};
  double join_timeout_s = 60;
  int slots = 0;                     // 0: as the launcher says
  std::string hosts{}, ssh = "ssh";  // of `launch`
};

/// Declare options of a job: of every command that can lead one; of a command that a launcher
/// starts several times; of a command that starts agents by ssh (returns --hosts).
void add_job(CommandOptions& options, JobArguments& job);
void add_launched(CommandOptions& options, JobArguments& job);
Option add_hosts(CommandOptions& options, JobArguments& job);

}  // namespace ringside::tools::cli
