// ringside mpi-launch-shim, ringside on

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "experiments/runner/hosts/mpi_launch_shim.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {
namespace {

struct StandInArguments {
  std::string world;
  std::vector<int> ranks;
};

struct OnArguments {
  std::string world;
  std::vector<std::string> words;  // options of ssh, the host, the command
};

/// Asks the leader of a job to run a command on another host.
int run_on_host(const OnArguments& arguments) {
  // MPICH gives options of ssh before the host.
  const auto& words = arguments.words;
  const auto host = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return !word.starts_with('-'); });
  if (host == words.end()) throw Error("no host is named");
  return runner::run_on(arguments.world, *host,
                        fmt::format("{}", fmt::join(std::next(host), words.end(), " ")));
}

}  // namespace

// MPI's launcher starts `mpi-launch-shim` where it starts ranks, and `on` where it starts its
// daemons (experiments/runner/hosts/mpi_launch_shim.h).
Execute mpi_launch_shim_command(CommandOptions& options) {
  options.summary("in place of a rank");
  options.hide();
  const auto arguments = std::make_shared<StandInArguments>();
  options.add("WORLD", arguments->world).required();
  options.add("RANKS", arguments->ranks).required().commas();
  return [arguments](const Process& process) {
    return runner::mpi_launch_shim(arguments->world, arguments->ranks, process.environment);
  };
}

Execute on_command(CommandOptions& options) {
  options.summary("in place of ssh");
  options.hide();
  const auto arguments = std::make_shared<OnArguments>();
  options.add("WORLD", arguments->world).required();
  options.take_rest(arguments->words);
  return [arguments](const Process&) { return run_on_host(*arguments); };
}

}  // namespace ringside::tools::cli
