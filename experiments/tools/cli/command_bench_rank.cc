// ringside bench-rank, ringside keep

#include <optional>

#include "core/base/error.h"
#include "core/launch/launch.h"
#include "core/launch/subprocess_group.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {
namespace {

int run_as_bench_rank(int socket) {
  std::optional<LauncherLink> link;
  try {
    link.emplace(socket, runner::default_options);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  return bench::be_bench_rank(*link) ? ok : run_failed;
}

}  // namespace

Execute bench_rank_command(CommandOptions& options) {
  options.summary("one rank of a bench");
  options.hide();
  const auto socket = std::make_shared<int>(-1);
  options.add("SOCKET", *socket).required();
  return [socket](const Process&) { return run_as_bench_rank(*socket); };
}

Execute keep_command(CommandOptions& options) {
  options.summary("the keeper of programs of others");
  options.hide();
  const auto words = std::make_shared<std::vector<std::string>>();
  options.take_rest(*words);
  return [words](const Process&) { return keep(*words); };
}

}  // namespace ringside::tools::cli
