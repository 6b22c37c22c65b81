// ringside validate
#include <unistd.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "experiments/runner/report/published.h"
#include "experiments/tools/bench/published_collectives.h"
#include "experiments/tools/cli/comparison.h"
#include "experiments/tools/cli/job_start.h"

namespace ringside {

/// Throws Error unless a case of the experiment says what was published of it.
static void check_published(const std::string& file, const Arguments& arguments) {
  const Experiment experiment = read_experiment(file, arguments.overrides, arguments.cases);
  for (const CaseConfig& one : experiment.cases)
    for (const std::vector<double>& figures : one.published.figures)
      if (!figures.empty()) return;
  throw Error(
      "{}: no case says what was published of it; write published_ms or another such key "
      "(`ringside list keys`) into its [[compare.case]], or use `ringside compare`",
      file);
}

int validate_command(Arguments arguments, const Process& process) {
  std::map<std::string, std::vector<PublishedCollective>> collectives;  // by file
  try {
    check_alone("validate", "start it without the launcher", process);
    for (const std::string& file : arguments.files)
      if (lists_collectives(file))
        collectives[file] = read_collectives(file);
      else
        check_published(file, arguments);
  } catch (const std::exception& error) {
    return complain(wrong_input, explain(error));
  }
  std::vector<PublishedFigure> figures;
  const auto add = [&](const std::vector<PublishedFigure>& more) {
    figures.insert(figures.end(), more.begin(), more.end());
  };
  int status = ok;
  for (const std::string& file : arguments.files) {
    if (collectives.contains(file)) continue;
    arguments.file = file;
    Compared compared = make_comparison(arguments, process);
    if (compared.folder.empty()) return complain(compared.status, compared.complaint);
    if (compared.status != ok) status = complain(compared.status, file + ": " + compared.complaint);
    add(published_figures(compared.cases));
  }
  const bool tuning = std::find(arguments.overrides.begin(), arguments.overrides.end(),
                                "sim.tuning=false") == arguments.overrides.end();
  // Collectives are simulated in this process, the runs of experiments in processes of their own,
  // which must start while there is no simulated world here.
  for (const auto& [file, all] : collectives) {
    if (process.interrupted()) return complain(was_interrupted, "validate: interrupted");
    try {
      add(simulate_collectives(all, std::filesystem::path(file).stem().string(), tuning));
    } catch (const std::exception& error) {
      status = complain(run_failed, file + ": " + explain(error));
    }
  }
  const std::string text = published_text(figures);
  if (text.empty()) return status;
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << text;
  return finish(out, status);
}

}  // namespace ringside
