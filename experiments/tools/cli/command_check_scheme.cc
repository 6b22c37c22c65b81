// ringside check-scheme
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/check/scheme_checks.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/experiment_arguments.h"

namespace ringside::tools::cli {
namespace {

struct CheckArguments {
  std::string scheme;
  std::vector<std::int64_t> worlds = {1, 2, 3, 4};
  std::vector<std::string> settings;
};

/// A file to train on: words in a pattern, so that a model can learn something. It lies in memory,
/// and ends with this process.
std::string text_in_memory() {
  constexpr std::string_view words[] = {"ring ", "tree ", "shard ", "bucket ", "rank "};
  std::string text;
  for (std::size_t i = 0; text.size() < 20'000; ++i) text += words[(i * i + i / 7) % 5];
  const int file = memfd_create("text", MFD_CLOEXEC);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error("check-scheme: there is no memory for a text of {} bytes", text.size());
  return fmt::format("/proc/self/fd/{}", file);
}

/// The default options and those that the scheme's info names; or those of the command line alone.
std::vector<check::TriedScheme> tried(const SchemeInfo& info, const TriedOptions* given) {
  if (given) return {{&info, given}};
  std::vector<check::TriedScheme> out = {{&info}};
  for (const TriedOptions& one : info.tried) out.push_back({&info, &one});
  return out;
}

/// Prints one line, and one more for each of the first violations. Returns whether all is right.
bool check_one(const check::SchemeCheck& check, const check::CheckedScheme& one,
               const std::string& text) {
  constexpr std::size_t most_lines = 5;
  check::Violations found;
  try {
    found = check.run(one, text);
  } catch (const std::exception& error) {
    found = {fmt::format("the run failed: {}", error_text(error))};
  }
  std::cout << fmt::format("  {:<16} {}{}\n", check.name,
                           found.empty() ? "" : "WRONG: ", check.demand);
  for (std::size_t i = 0; i < std::min(most_lines, found.size()); ++i)
    std::cout << fmt::format("                   {}\n", found[i]);
  if (found.size() > most_lines)
    std::cout << fmt::format("                   and {} more\n", found.size() - most_lines);
  std::cout << std::flush;
  return found.empty();
}

int check_scheme(const CheckArguments& arguments, const Process& process) {
  const SchemeInfo* info = nullptr;
  std::optional<TriedOptions> given;
  try {
    info = &runner::find_scheme(arguments.scheme);
    if (!arguments.settings.empty()) {
      const auto config = runner::experiment_of("check", arguments.settings).common;
      const auto options = config.scheme_options.find(arguments.scheme);
      if (options == config.scheme_options.end())
        throw Error("--set: set options of the scheme, as in scheme.{}.KEY=VALUE",
                    arguments.scheme);
      given = TriedOptions{"as set", options->second};
    }
    if (info->program)
      throw Error(
          "check-scheme {}: another program runs its ranks; the proof of `ringside compare` holds "
          "them against a definition",
          arguments.scheme);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  const std::string text = text_in_memory();
  const bool with_simulations = check::can_simulate();
  int checks = 0, wrong = 0;
  for (const check::TriedScheme& one : tried(*info, given ? &*given : nullptr))
    for (const std::int64_t world : arguments.worlds) {
      const check::CheckedScheme checked{one, static_cast<int>(world)};
      std::cout << fmt::format("{} at world {}\n", one.name(), world);
      for (const check::SchemeCheck& check : check::scheme_checks()) {
        if (process.interrupted()) return complain(was_interrupted, "interrupted");
        if (!concerns(check, checked) || (check.simulates && !with_simulations)) continue;
        ++checks;
        wrong += check_one(check, checked, text) ? 0 : 1;
      }
    }
  if (!with_simulations)
    std::cout << "Left out: simulated runs; this build has no device \"sim\".\n";
  std::cout << fmt::format("{}: {} checks, {} wrong\n", info->name, checks, wrong) << std::flush;
  if (checks == 0)
    return complain(run_failed,
                    fmt::format("check-scheme {}: runs of this scheme are proven by replaying "
                                "them, which `ringside compare` does",
                                info->name));
  return wrong == 0 ? ok : run_failed;
}

}  // namespace

Execute check_scheme_command(CommandOptions& options) {
  options.summary(
      "hold small runs of a scheme against its definition and against other schemes, as the test "
      "suite does");
  const auto arguments = std::make_shared<CheckArguments>();
  options.add("SCHEME", arguments->scheme, "a scheme of `ringside list schemes`").required();
  options.add("--worlds", arguments->worlds, "numbers of workers; 1,2,3,4 if left out")
      .list()
      .positive();
  add_settings(options, arguments->settings);
  options.footer(
      "Tries the default options and those that the scheme's info names (SchemeInfo::tried); with "
      "--set those that are set, also of a compressor of your own: check-scheme ddp --plugin "
      "FILE --set scheme.ddp.compressor=NAME.");
  return [arguments](const Process& process) {
    process.catch_interrupts();
    return check_scheme(*arguments, process);
  };
}

}  // namespace ringside::tools::cli
