// Ranks that another program runs.
#pragma once

#include <string>

#include "core/base/fields.h"

namespace ringside {

/// A program that runs ranks in place of this one, with the same protocol to the launcher
/// (core/launch/launch.h).
struct OtherProgram {
  /// The command: a file, or the name of a file in a folder of PATH, as "python3".
  std::string command;
  /// Its first argument: a file or folder in the folder of this program, as "peers/ringside_peers".
  std::string script;
  /// Whether one process runs all ranks and reports the list of their records.
  bool all_ranks = false;
  bool operator==(const OtherProgram&) const = default;
};

inline Fields fields_of(OtherProgram& program) {
  return {{"command", &program.command},
          {"script", &program.script},
          {"all_ranks", &program.all_ranks}};
}

}  // namespace ringside
