// ringside check-scheme
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <sstream>
#include <utility>

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
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
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

/// Makes a check in a process of its own, because code of a plug-in may end it. Blocks.
check::Violations made_apart(const check::SchemeCheck& check, const check::CheckedScheme& one,
                             const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("check-scheme: pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) throw Error("check-scheme: fork: {}", std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string said;
    try {
      for (const std::string& violation : check.run(one, text)) said += violation + '\n';
    } catch (const std::exception& error) {
      said = fmt::format("it failed: {}\n", error_text(error));
    } catch (...) {
      said = "it failed: something was thrown that is no std::exception\n";
    }
    for (std::string_view left = said; !left.empty();) {
      const ssize_t written = ::write(ends[1], left.data(), left.size());
      if (written <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(written));
    }
    _exit(0);  // without the destructors of this copy of the program
  }
  close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t count; (count = ::read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  check::Violations out;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  if (WIFSIGNALED(status))
    out.push_back(fmt::format("its process was killed by signal {} ({})", WTERMSIG(status),
                              strsignal(WTERMSIG(status))));
  else if (WEXITSTATUS(status) != 0)
    out.push_back(fmt::format("its process ended with status {}", WEXITSTATUS(status)));
  return out;
}

/// Makes all checks that concern the scheme, and prints a line for it, and what is wrong. Returns
/// the numbers of checks and of wrong ones.
std::pair<int, int> check_one(const check::CheckedScheme& one, const std::string& text,
                              bool with_simulations, const Process& process) {
  constexpr std::size_t most_lines = 5;
  int checks = 0, wrong = 0;
  std::string details;
  for (const check::SchemeCheck& check : check::scheme_checks()) {
    if (process.interrupted()) break;
    if (!concerns(check, one) || (check.simulates && !with_simulations)) continue;
    ++checks;
    const check::Violations found = made_apart(check, one, text);
    if (found.empty()) continue;
    ++wrong;
    details += fmt::format("  {}: a scheme {}, but\n", check.name, check.demand);
    for (std::size_t i = 0; i < std::min(most_lines, found.size()); ++i)
      details += fmt::format("    {}\n", found[i]);
    if (found.size() > most_lines)
      details += fmt::format("    and {} more\n", found.size() - most_lines);
  }
  std::cout << fmt::format("{} at world {}: {} checks, {}\n", one.scheme.name(), one.world, checks,
                           wrong == 0 ? "all right" : fmt::format("{} WRONG", wrong))
            << details << std::flush;
  return {checks, wrong};
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
      given = TriedOptions{"with_what_is_set", options->second};
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
      const auto [made, failed] =
          check_one({one, static_cast<int>(world)}, text, with_simulations, process);
      if (process.interrupted()) return complain(was_interrupted, "interrupted");
      checks += made;
      wrong += failed;
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
