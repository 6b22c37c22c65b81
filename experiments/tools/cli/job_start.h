// The start of a command as one process of a job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/runner/hosts/job.h"
#include "experiments/tools/cli/cli_options.h"

namespace ringside::tools::cli {

/// The options of commands that run under a launcher, or that act as one.
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

struct Process;

/// The task of all processes of a job, in the order of a command line.
struct JobTask {
  std::string command;                // "compare"
  std::vector<std::string> files{};   // which must be the same for all
  std::vector<std::string> settings;  // options that must be the same for all
};

/// Runs this process in the role that its launcher gave it, and returns its exit status. An agent
/// starts ranks for others; the leader of the job calls `lead` once all agents have connected; a
/// process alone calls `lead` with null. `job.hosts` asks for a job whose agents this process
/// starts by ssh. Complains on standard error.
int in_job(const JobTask& task, const JobArguments& job, const Process& process,
           const std::function<int(runner::Job*)>& lead);

/// Throws Error if a launcher has started this process as one of several: each of them would do all
/// of a command that takes no part in a job. `instead` is the advice in the error.
void check_alone(const std::string& command, const std::string& instead, const Process& process);

}  // namespace ringside::tools::cli
