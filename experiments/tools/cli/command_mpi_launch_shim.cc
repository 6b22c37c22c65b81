// ringside stand-in, ringside on

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "experiments/runner/hosts/mpi_launch_shim.h"
#include "experiments/tools/cli/commands.h"

namespace ringside {

int stand_in_command(const Arguments& arguments, const Process& process) {
  return mpi_launch_shim(arguments.world_of_mpi, arguments.stood_in_for, process.environment);
}

int on_command(const Arguments& arguments) {
  // MPICH gives options of ssh before the host.
  const auto& words = arguments.remote;
  const auto host = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return !word.starts_with('-'); });
  if (host == words.end()) throw Error("no host is named");
  return run_on(arguments.world_of_mpi, *host,
                fmt::format("{}", fmt::join(std::next(host), words.end(), " ")));
}

}  // namespace ringside
