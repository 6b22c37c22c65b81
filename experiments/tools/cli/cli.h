// The command line.
#pragma once

#include "experiments/tools/cli/process.h"

namespace ringside::tools::cli {

/// Executes the command of the arguments and blocks until it is done. Returns the exit status: 0
/// for success; 1 if a run failed; 2 for wrong input, with one line on standard error and nothing
/// written; 130 if the user interrupted the program.
int run_command_line(const Process& process);

}  // namespace ringside::tools::cli
