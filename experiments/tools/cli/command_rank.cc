// ringside rank

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/json_fields.h"
#include "core/launch/launch.h"
#include "core/launch/rank_link.h"
#include "core/plan/worlds.h"
#include "experiments/runner/registry/mpi_of.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/elastic_rank.h"
#include "experiments/runner/run/rank.h"
#include "experiments/runner/run/simulation.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {

namespace {

/// Runs one rank of a run or of a bench, or all ranks of a simulated run. A RankHost starts this
/// command.
int run_as_rank(int socket, const Process& process) {
  raise_the_limit_of_open_files();
  // A peer, or a daemon of MPI, that has gone is an error of a library, and no signal that would
  // look like the cause of the rank's end.
  std::signal(SIGPIPE, SIG_IGN);
  std::optional<LauncherLink> link;
  try {
    link.emplace(socket, runner::read_plan);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  // Ctrl-C reaches all processes of a terminal; a run with checkpoints ends when its launcher says
  // so.
  if (!link->plan().checkpoint.path.empty()) std::signal(SIGINT, SIG_IGN);
  if (link->plan().purpose == Purpose::bench) return bench::be_bench_rank(*link) ? ok : run_failed;
  try {
    const auto report = [&](const Progress& progress) { link->report_progress(to_json(progress)); };
    if (link->plan().cluster) {
      nlohmann::json records = nlohmann::json::array();
      for (const RankRecord& record :
           runner::simulate(link->plan(), report, nullptr, &link->store()))
        records.emplace_back(to_json(record));
      link->finish(records);
      return ok;
    }
    if (is_elastic(link->plan()))
      return runner::run_elastic_rank(*link, process.built_commit) ? ok : run_failed;
    runner::enter_mpi(link->plan(), link->rank(), link->store());
    const RankRecord record = runner::run_rank(
        link->plan(), link->rank(), {link->store(), nullptr, process.built_commit, true},
        {report, [&](const std::string& error) { link->fail(error); },
         [&](const Beat& beat) {
           link->link().send({{"beat", to_json(beat)}});
         }});
    runner::leave_mpi(link->plan());
    if (record.left)
      link->link().send({{seat_left, true}});
    else
      link->finish(to_json(record));
    return ok;
  } catch (const std::exception& error) {
    link->fail(error_text(error));
    return run_failed;
  }
}

}  // namespace

Execute rank_command(CommandOptions& options) {
  options.summary("one rank of a run");
  options.hide();
  const auto socket = std::make_shared<int>(-1);
  options.add("SOCKET", *socket).required();
  return [socket](const Process& process) { return run_as_rank(*socket, process); };
}

}  // namespace ringside::tools::cli
