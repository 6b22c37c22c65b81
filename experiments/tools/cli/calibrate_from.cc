#include "experiments/tools/cli/calibrate_from.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/whole_file.h"
#include "core/sim/world.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/tools/calibrate/cluster_fit.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

/// The figures in the files of the command line, and the place of the result.
struct Figures {
  std::vector<RunPlan> steps;  // of one device
  std::vector<bench::PublishedCollective> collectives;
  int not_used = 0;  // published figures of several devices, and those that are no speeds
  std::filesystem::path base, output;
  std::string shown;  // the output as the user gave its folder
  sim::ClusterSpec cluster;
};

std::filesystem::path whole_path(const std::string& file) {
  return std::filesystem::weakly_canonical(file);
}

/// Whether figures about `cluster` count: those about the cluster that was asked for. If none was,
/// all have to be about the same one.
bool counts(Figures& figures, const FitArguments& arguments, const std::string& file,
            const std::string& cluster) {
  const auto named = whole_path(cluster);
  if (!arguments.cluster.empty()) return named == figures.base;
  if (!figures.base.empty() && named != figures.base)
    throw Error(
        "--from {}: it has figures of cluster {}, and there are others of {}; say with --cluster "
        "which of the two is to be fitted",
        file, named.string(), figures.base.string());
  figures.base = named;
  return true;
}

void read(Figures& figures, const FitArguments& arguments, const std::string& file) {
  if (bench::lists_collectives(file)) {
    for (bench::PublishedCollective& one : bench::read_collectives(file))
      if (counts(figures, arguments, file, one.cluster))
        figures.collectives.push_back(std::move(one));
    return;
  }
  for (const RunPlan& plan : runner::plan_comparison(runner::read_experiment(file, {}))) {
    if (plan.listing.published.empty() || plan.repeat > 0) continue;
    if (!plan.cluster)
      throw Error("--from {}: case {} is not simulated; set device.kind = \"sim\"", file,
                  plan.listing.label);
    if (!counts(figures, arguments, file, plan.device.cluster)) continue;
    const bool used = plan.world == 1 && calibrate::published_per_s(plan);
    figures.not_used += static_cast<int>(plan.listing.published.size()) - (used ? 1 : 0);
    if (used) figures.steps.push_back(plan);
  }
}

Figures read_all(const FitArguments& arguments) {
  Figures figures;
  if (!arguments.cluster.empty()) figures.base = whole_path(arguments.cluster);
  for (const std::string& file : arguments.files) read(figures, arguments, file);
  if (figures.steps.empty() && figures.collectives.empty())
    throw Error(
        "--from: no case of these files says what was published of one device{} (published_ms or "
        "published_per_s at world 1), and there are no tables [[collective]] of one either",
        arguments.cluster.empty() ? "" : " of " + figures.base.string());
  figures.cluster = runner::read_cluster(figures.base);
  if (!figures.cluster.speeds.empty())
    throw Error("--from: {} has speeds of models already; name the file that it includes",
                figures.base.string());
  if (!figures.cluster.others.empty() && !figures.steps.empty())
    throw Error("--from: {} has devices of several kinds; fit a file with one kind",
                figures.base.string());
  figures.shown =
      (std::filesystem::path(arguments.results) / (figures.base.stem().string() + "-fitted.toml"))
          .string();
  std::error_code failed;
  std::filesystem::create_directories(arguments.results, failed);
  if (failed) throw Error("--results {}: {}", arguments.results, failed.message());
  figures.output = check_output("--results", figures.shown).path;
  return figures;
}

std::string comment_of(const FitArguments& arguments, const Figures& figures) {
  std::string names;
  for (const std::string& file : arguments.files)
    names += (names.empty() ? "" : ", ") + std::filesystem::path(file).filename().string();
  return fmt::format(
      "# {} as `ringside calibrate --from` fitted it to {}:\n# what stands below is fitted, all "
      "else is as the included file says.\n",
      figures.base.stem().string(), names);
}

}  // namespace

int fit_cluster(const FitArguments& arguments, const Process& process) {
  Figures figures;
  try {
    figures = read_all(arguments);
    sim::require_simgrid();
  } catch (const std::exception& error) {
    return complain(wrong_input, error_text(error));
  }
  process.catch_interrupts();
  OutputStream errors(STDERR_FILENO, process.interrupted);
  try {
    const runner::RankStart start = rank_start(process, errors);
    const sim::ClusterSpec before = figures.cluster;
    std::vector<calibrate::FittedFigure> fitted =
        calibrate::fit_speeds(figures.cluster, figures.steps, [&](const RunPlan& plan) {
          const runner::RunOutcome outcome =
              runner::run_plan(plan, start, [](const runner::Step&) {});
          if (outcome.interrupted) throw Error("interrupted");
          if (outcome.row.status != "ok")
            throw Error("{}: {}", plan.listing.label, outcome.row.error);
          return outcome.row.samples_per_s;
        });
    // Collectives are simulated in this process; runs start while there is no simulated world here.
    const auto links = calibrate::fit_links(figures.cluster, figures.collectives);
    fitted.insert(fitted.end(), links.begin(), links.end());
    figures.cluster.source += "; fitted by `ringside calibrate --from`";
    write_whole(figures.output,
                calibrate::fitted_text(figures.output, figures.base, before, figures.cluster,
                                       comment_of(arguments, figures)));
    OutputStream out(STDOUT_FILENO, process.interrupted);
    out << calibrate::fit_text(fitted);
    const sim::ClusterSpec written = runner::read_cluster(figures.output);
    out << runner::assumed_text({{written.name, written.assumed}});
    if (figures.not_used > 0)
      out << fmt::format(
          "Figures of several devices, or of no speed, were left alone: {}. See what comes out of "
          "them with\n"
          "  ringside validate FILE --set device.cluster={}\n",
          figures.not_used, figures.shown);
    out << fmt::format("Written to {}\n", figures.shown);
    return finish(out, ok);
  } catch (const std::exception& error) {
    if (process.interrupted()) return complain(was_interrupted, "calibrate: interrupted");
    return complain(run_failed, error_text(error));
  }
}

}  // namespace ringside::tools::cli
