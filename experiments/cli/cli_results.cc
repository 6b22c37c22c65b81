// The commands that look at results which are there already.
#include "experiments/cli/cli_commands.h"

namespace ringside {
namespace {

CLI::App* add_watch(CLI::App& app, Arguments& arguments) {
  CLI::App* watch = app.add_subcommand(
      "watch",
      "follow a comparison that runs in another terminal, by its folder of results, until it ends");
  watch->add_option("RESULTS", arguments.file, "the folder, as in results/quickstart")->required();
  watch->add_flag("--once", arguments.once, "print how the comparison stands now, and end");
  watch->add_flag("--json", arguments.events, "print its events, one a line, in JSON");
  return watch;
}

}  // namespace

void add_result_commands(CLI::App& app, Arguments& arguments, const Process& process,
                         Commands& commands) {
  commands.push_back(
      {add_watch(app, arguments), [&] { return watch_command(arguments, process); }});
}

}  // namespace ringside
