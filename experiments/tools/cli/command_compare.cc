// ringside compare, ringside launch
#include <fmt/ranges.h>
#include <unistd.h>

#include <iostream>

#include "experiments/runner/registry/plugins.h"
#include "experiments/tools/cli/comparison.h"
#include "experiments/tools/cli/job_start.h"
#include "experiments/tools/watch/event_lines.h"

namespace ringside::tools::cli {
namespace {

struct CompareArguments {
  ComparisonArguments comparison;
  JobArguments job;
  bool events = false;  // print events as lines of JSON in place of tables
};

/// Declares the options that `compare` and `launch` share.
void declare_comparison(CommandOptions& options, CompareArguments& arguments) {
  ComparisonArguments& comparison = arguments.comparison;
  options.uses_cores();
  add_experiment(options, comparison.experiment);
  options
      .add(
          "--schemes", comparison.schemes,
          "run only these schemes, as in ddp,fsdp, and leave out the file's cases of other schemes")
      .list()
      .type("A,B");
  options
      .add("--worlds", comparison.worlds,
           "run only with these numbers of workers, as in 1,2, in place of those of the file and "
           "of its cases; not beside a --case with worlds")
      .list()
      .type("N,M");
  options
      .add("--case", comparison.cases,
           "add a case to the comparison: a scheme with settings of its own, as in 'ps: "
           "scheme.ps.servers=1, train.micro_batch=2'; among the settings may be label, world and "
           "worlds; may be given several times; for a product of lists set "
           "compare.sweep.KEY='[A, B]'")
      .type("SCHEME: KEY=VALUE, ...")
      .one_word();
  options.flag(
      "--quick", comparison.quick,
      "a first look: make each run once, even if other work on this machine disturbs it, "
      "and leave out the line of `single` with all cores, whatever [compare] says; times then have "
      "no interval");
  add_job(options, arguments.job);
  add_resume(options, comparison.resume,
             "keep the rows of the results folder, and make only the missing runs, each from its "
             "newest checkpoint if it was broken off; without --resume, earlier results are moved "
             "to its subfolders before-1, before-2, ...");
  options.flag("--json", arguments.events,
               "print one event a line, in JSON, in place of the tables: the plan, and the "
               "progress and end of every run");
  add_results(options, comparison.results);
}

/// Makes the comparison, and prints its events in place of its tables.
int tell_events(const CompareArguments& arguments, const Process& process, runner::Job* job) {
  OutputStream out(STDOUT_FILENO, process.interrupted, OutputStream::usually_waiting,
                   watch::left_out_event);
  const Compared compared = make_comparison(arguments.comparison, process, job, &out);
  const int status = finish(out, compared.status);
  return compared.status == ok ? status : complain(compared.status, compared.complaint);
}

int compare(const CompareArguments& arguments, const Process& process, runner::Job* job) {
  if (arguments.events) return tell_events(arguments, process, job);
  const Compared compared = make_comparison(arguments.comparison, process, job);
  if (compared.folder.empty()) return complain(compared.status, compared.complaint);
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << runner::summary_text(compared.cases) << "\nResults: " << compared.folder << "\n";
  if (compared.status == ok) return finish(out, ok);
  out.finish();
  return complain(compared.status, compared.complaint);
}

/// The options of a command line that asks for the same comparison.
std::vector<std::string> settings_of_comparison(const ComparisonArguments& arguments) {
  std::vector<std::string> out;
  for (const PluginFile& plugin : runner::loaded_plugins())
    out.insert(out.end(), {"--plugin", plugin.file});
  for (const std::string& setting : arguments.experiment.settings)
    out.insert(out.end(), {"--set", setting});
  for (const std::string& one : arguments.cases) out.insert(out.end(), {"--case", one});
  if (!arguments.schemes.empty())
    out.insert(out.end(), {"--schemes", fmt::format("{}", fmt::join(arguments.schemes, ","))});
  if (!arguments.worlds.empty())
    out.insert(out.end(), {"--worlds", fmt::format("{}", fmt::join(arguments.worlds, ","))});
  if (arguments.quick) out.emplace_back("--quick");
  return out;
}

int run_compare(const CompareArguments& arguments, const Process& process) {
  const ComparisonArguments& comparison = arguments.comparison;
  return in_job({"compare", {comparison.experiment.file}, settings_of_comparison(comparison)},
                arguments.job, process,
                [&](runner::Job* job) { return compare(arguments, process, job); });
}

}  // namespace

Execute compare_command(CommandOptions& options) {
  options.summary(
      "run every scheme and case of an experiment with every number of workers, and print one "
      "table");
  const auto arguments = std::make_shared<CompareArguments>();
  declare_comparison(options, *arguments);
  add_launched(options, arguments->job);
  return [arguments](const Process& process) { return run_compare(*arguments, process); };
}

Execute launch_command(CommandOptions& options) {
  options.summary("do what `compare` does, with workers on several hosts, where ssh starts agents");
  const auto arguments = std::make_shared<CompareArguments>();
  declare_comparison(options, *arguments);
  add_hosts(options, arguments->job).required();
  return [arguments](const Process& process) { return run_compare(*arguments, process); };
}

}  // namespace ringside::tools::cli
