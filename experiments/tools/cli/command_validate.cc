// ringside validate
#include <unistd.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/report/published.h"
#include "experiments/tools/bench/published_collectives.h"
#include "experiments/tools/cli/comparison.h"
#include "experiments/tools/cli/job_start.h"

namespace ringside::tools::cli {
namespace {

struct ValidateArguments {
  std::vector<std::string> files, settings;
  std::string results = "results";
};

/// Throws Error unless a case of the experiment has a published figure.
void check_published(const std::string& file, const ValidateArguments& arguments) {
  const runner::Experiment experiment = runner::read_experiment(file, arguments.settings);
  for (const runner::CaseConfig& one : experiment.cases)
    for (const std::vector<double>& figures : one.published.figures)
      if (!figures.empty()) return;
  throw Error(
      "{}: no case says what was published of it; write published_ms or another such key "
      "(`ringside list keys`) into its [[compare.case]], or use `ringside compare`",
      file);
}

/// Makes the comparisons of the files, and prints their published figures.
int validate(const ValidateArguments& arguments, const Process& process) {
  std::map<std::string, std::vector<bench::PublishedCollective>> collectives;  // by file
  try {
    check_alone("validate", "start it without the launcher", process);
    for (const std::string& file : arguments.files)
      if (bench::lists_collectives(file))
        collectives[file] = bench::read_collectives(file);
      else
        check_published(file, arguments);
  } catch (const std::exception& error) {
    return complain(wrong_input, error_text(error));
  }
  std::vector<runner::PublishedFigure> figures;
  const auto add = [&](const std::vector<runner::PublishedFigure>& more) {
    figures.insert(figures.end(), more.begin(), more.end());
  };
  int status = ok;
  for (const std::string& file : arguments.files) {
    if (collectives.contains(file)) continue;
    const Compared compared = make_comparison(
        {.experiment = {file, arguments.settings}, .results = arguments.results}, process);
    if (compared.folder.empty()) return complain(compared.status, compared.complaint);
    if (compared.status != ok) status = complain(compared.status, file + ": " + compared.complaint);
    add(runner::published_figures(compared.cases));
  }
  const bool tuning = std::find(arguments.settings.begin(), arguments.settings.end(),
                                "sim.tuning=false") == arguments.settings.end();
  // Collectives are simulated in this process, the runs of experiments in processes of their own,
  // which must start while there is no simulated world here.
  for (const auto& [file, all] : collectives) {
    if (process.interrupted()) return complain(was_interrupted, "validate: interrupted");
    try {
      add(bench::simulate_collectives(all, std::filesystem::path(file).stem().string(), tuning));
    } catch (const std::exception& error) {
      status = complain(run_failed, file + ": " + error_text(error));
    }
  }
  const std::string text = runner::published_text(figures);
  if (text.empty()) return status;
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << text;
  return finish(out, status);
}

}  // namespace

Execute validate_command(CommandOptions& options) {
  options.summary(
      "make the comparisons of several experiments, and print one table of the "
      "published figures of their cases next to the new ones");
  options.uses_cores();
  const auto arguments = std::make_shared<ValidateArguments>();
  options
      .add("FILES", arguments->files,
           "experiment files (TOML) whose cases have published_ms, published_per_s and so on, as "
           "experiments/published/validate/*.toml, and files of collectives, as nccl-tests.toml "
           "there, to which settings do not apply")
      .required();
  add_settings(options, arguments->settings);
  add_results(options, arguments->results);
  return [arguments](const Process& process) { return validate(*arguments, process); };
}

}  // namespace ringside::tools::cli
