#include "experiments/tools/cli/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <deque>
#include <iostream>
#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/processor.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/tools/cli/commands.h"
#include "experiments/tools/cli/thread_binding.h"

namespace ringside::tools::cli {
namespace {

constexpr std::string_view version = "ringside 0.1";

/// Declares all commands to `app`: `declared` and what each executes, in the same order. All write
/// their plug-ins to `plugins`.
void declare_commands(CLI::App& app, std::deque<CommandOptions>& declared,
                      std::vector<Execute>& execute, std::vector<std::string>& plugins) {
  std::map<std::string_view, CLI::App*> parents = {{"", &app}};
  for (const CommandInfo& command : commands()) {
    CLI::App*& parent = parents[command.group];
    for (const CommandGroup& group : command_groups())
      if (!parent && group.name == command.group) {
        parent = app.add_subcommand(std::string(group.name), std::string(group.summary));
        parent->require_subcommand(1);
      }
    declared.emplace_back(*parent->add_subcommand(std::string(command.name)));
    execute.push_back(command.declare(declared.back()));
    declared.back()
        .add("--plugin", plugins,
             "a shared library with schemes, compressors, optimizers, models or data sets of your "
             "own (docs/extending.md); may be given several times")
        .type("FILE")
        .one_word();
  }
}

int run_command(const Process& process) {
  CLI::App app(
      "Trains one model on N workers with every scheme of keeping them in step, and shows the "
      "results side by side.\n\n"
      "Begin with:  ringside compare experiments/quickstart.toml\n",
      "ringside");
  app.set_version_flag("--version", std::string(version), "print the version");
  app.set_help_flag("--help,-h", "print this help; `ringside COMMAND --help` says more");
  app.require_subcommand(1);

  std::deque<CommandOptions> declared;  // commands keep references to them
  std::vector<Execute> execute;
  std::vector<std::string> plugins;
  declare_commands(app, declared, execute, plugins);

  try {
    // CLI11 wants the arguments in reverse order.
    app.parse(std::vector<std::string>(process.arguments.rbegin(), process.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(wrong_input, fmt::format("{}; see `ringside --help`", error.what()));
  }
  const auto asked = std::find_if(declared.begin(), declared.end(),
                                  [](const CommandOptions& one) { return one.was_asked_for(); });
  try {
    if (asked != declared.end()) asked->check_no_option_is_empty();
    runner::load_plugins(plugins);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  try {
    if (asked == declared.end())
      throw Error("the command line names no command");  // CLI11 has asked for one
    asked->finish();
    if (asked->depends_on_cores() && !process.thread_binding.empty())
      complain(ok, thread_binding_text(process.thread_binding, allowed_cores().value_or(1)));
    return execute[static_cast<std::size_t>(asked - declared.begin())](process);
  } catch (const std::exception& error) {
    return complain(run_failed, error_text(error));
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

}  // namespace ringside::tools::cli
