// The start of a command as one process of a job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/runner/hosts/job.h"
#include "experiments/tools/cli/job_arguments.h"

namespace ringside::tools::cli {

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
