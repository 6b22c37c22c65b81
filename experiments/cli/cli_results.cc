// The commands that look at results which are there already.
#include "experiments/cli/cli_commands.h"

namespace ringside {

void add_result_commands(CLI::App& /*app*/, Arguments& /*arguments*/, const Process& /*process*/,
                         Commands& /*commands*/) {}

}  // namespace ringside
