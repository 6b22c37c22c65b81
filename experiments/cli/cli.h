// The command line.
#pragma once

#include "experiments/cli/process.h"

namespace ringside {

/// Does what the arguments say; blocks until it is done. Returns the exit status: 0; 1 if a run
/// failed; 2 for wrong input, with one line on standard error and nothing written; 130 if it was
/// interrupted.
int run_command_line(const Process& process);

}  // namespace ringside
