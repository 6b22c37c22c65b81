// Other libraries, whose collectives `ringside bench comm --beside` measures beside ours. The
// program links none of them: each has a driver, a small program that runs one of its ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/launch/subprocess_group.h"
#include "experiments/tools/bench/rank_group.h"

namespace ringside::tools::bench {

struct ReferenceLibrary {
  std::string name;
  std::vector<std::string> operations;  // empty: all
  /// The programs that run `world` ranks, each of which calls serve(socket, ...). `folder` is
  /// theirs: it is in memory where the system has such a folder, and is removed after their end.
  std::function<std::vector<CommandLine>(const std::string& socket, int world,
                                         const std::string& folder)>
      programs;
};

/// The libraries of these names: openmpi, openmpi-segmented-ring, mpich, gloo; all of them that are
/// installed for "installed"; and NAME=COMMAND for a driver of one's own, which is started once for
/// each rank with the words SOCKET RANK RANKS FOLDER behind its own. Throws Error that says what to
/// install if a library is not there.
std::vector<ReferenceLibrary> find_reference_libraries(const std::vector<std::string>& names);

/// Starts the ranks, and blocks until they are connected. `program` is as for SubprocessGroup.
/// Throws Error.
std::unique_ptr<RankGroup> start_reference_library(const ReferenceLibrary& library, int world,
                                                   const RankProgram& program, Patience patience);

}  // namespace ringside::tools::bench
