// The commands of the program in groups, with the arguments of each.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "experiments/tools/cli/commands.h"

namespace ringside {

/// A command of the command line and the function that runs it, which returns the exit status.
struct Command {
  CLI::App* words;
  std::function<int()> run;
  bool uses_cores = false;  // whether what it tells depends on the cores that ranks may use
};
using Commands = std::vector<Command>;

/// Each function declares a group of commands to `app`, whose arguments go into `arguments`, and
/// adds them to `commands`. The arguments and `process` outlive the commands.
/// compare, validate, reproduce, advise, train: what makes runs of experiment files.
void add_experiment_commands(CLI::App& app, Arguments& arguments, const Process& process,
                             Commands& commands);
/// Commands that look at results which are there already.
void add_result_commands(CLI::App& app, Arguments& arguments, const Process& process,
                         Commands& commands);
/// bench comm and bench ps: what measures a part of the program by itself.
void add_bench_commands(CLI::App& app, Arguments& arguments, const Process& process,
                        Commands& commands);
/// calibrate, keys, list, doctor: what is about this machine and this build.
void add_machine_commands(CLI::App& app, Arguments& arguments, const Process& process,
                          Commands& commands);

/// Declares --results: the folder to which results are written.
void add_results(CLI::App& command, Arguments& arguments);
/// Declare options of a job: of every command that can lead one; of a command that a launcher
/// starts several times; of a command that starts agents by ssh (returns --hosts).
void add_job(CLI::App& command, JobArguments& job);
void add_seat(CLI::App& command, JobArguments& job);
CLI::Option* add_hosts(CLI::App& command, JobArguments& job);

}  // namespace ringside
