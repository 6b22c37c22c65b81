// The list of the program's commands.
#pragma once

#include <span>
#include <string_view>

#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {

/// A command: its name, the group in whose name it is called, as in `bench ps`, and the function
/// that declares it.
struct CommandInfo {
  std::string_view name, group;
  Execute (*declare)(CommandOptions& options);
};

/// Commands that are called as `ringside NAME COMMAND`.
struct CommandGroup {
  std::string_view name, summary;
};

/// In the order of the help.
std::span<const CommandInfo> commands();
std::span<const CommandGroup> command_groups();

}  // namespace ringside::tools::cli
