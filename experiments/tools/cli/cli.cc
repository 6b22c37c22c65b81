#include "experiments/tools/cli/cli.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "core/base/processor.h"
#include "experiments/tools/cli/cli_commands.h"
#include "experiments/tools/cli/thread_binding.h"

namespace ringside {
namespace {

constexpr std::string_view version = "ringside 0.1";

/// Throws Error that names an option which was given an empty text, as an unset variable of a
/// script leaves it. For paths and names that would mean something else than what was written.
void check_no_option_is_empty(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (option->nonpositional() && value.empty())
        throw Error("{}: the text is empty; give {}, or leave the option out", option->get_name(),
                    option->get_type_name().empty() ? "a value" : option->get_type_name());
}

int run_command(const Process& process) {
  Arguments arguments;
  CLI::App app(
      "Trains one model on N workers with every scheme of keeping them in step, and shows the "
      "results side by side.\n\n"
      "Begin with:  ringside compare experiments/quickstart.toml\n",
      "ringside");
  app.set_version_flag("--version", std::string(version), "print the version");
  app.set_help_flag("--help,-h", "print this help; `ringside COMMAND --help` says more");
  app.require_subcommand(1);

  Commands commands;
  add_experiment_commands(app, arguments, process, commands);
  add_result_commands(app, arguments, process, commands);
  add_bench_commands(app, arguments, process, commands);
  add_machine_commands(app, arguments, process, commands);

  try {
    // CLI11 wants the arguments in reverse order.
    app.parse(std::vector<std::string>(process.arguments.rbegin(), process.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(wrong_input, fmt::format("{}; see `ringside --help`", error.what()));
  }
  const auto asked = std::find_if(commands.begin(), commands.end(),
                                  [](const Command& one) { return one.words->parsed(); });
  try {
    if (asked != commands.end()) check_no_option_is_empty(*asked->words);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  try {
    if (asked != commands.end()) {
      if (asked->uses_cores && !process.thread_binding.empty())
        complain(ok, thread_binding_text(process.thread_binding, allowed_cores().value_or(1)));
      return asked->run();
    }
    throw Error("the command line names no command");  // CLI11 has asked for one
  } catch (const std::exception& error) {
    return complain(run_failed, explain(error));
  }
}

}  // namespace

int run_command_line(const Process& process) {
  const int status = run_command(process);
  std::cout.flush();
  if (std::cout || status != ok) return status;
  // The stream does not keep the cause of its failure. One more line normally fails in the same way
  // and sets errno.
  const bool fails_again = write(STDOUT_FILENO, "\n", 1) < 0;
  return complain(run_failed, not_shown(fails_again ? errno : EIO));
}

}  // namespace ringside
