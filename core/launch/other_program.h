// The command that starts a rank's process, of this program or another.
#pragma once

#include <string>
#include <vector>

#include "core/launch/local_host.h"

namespace ringside {

/// The file of a command, as a shell finds it; empty if no folder of PATH has it, or if a path is
/// no program. `environment` is "NAME=VALUE".
std::string file_of_command(const std::string& command,
                            const std::vector<std::string>& environment);

/// The file of a rank's program and its arguments, but for the socket, which comes last. Throws
/// Error if the plan names another program (RunPlan::program) that is not there. `environment` is
/// that of the rank: "NAME=VALUE".
std::vector<std::string> words_of(const RunPlan& plan, const RankProgram& program,
                                  const std::vector<std::string>& environment);

}  // namespace ringside
