// ringside compare
#include <fmt/ranges.h>
#include <unistd.h>

#include <iostream>

#include "experiments/tools/cli/comparison.h"
#include "experiments/tools/cli/job_start.h"
#include "experiments/tools/watch/event_lines.h"

namespace ringside {
namespace {

/// Makes the comparison, and prints its events in place of its tables.
int tell_events(const Arguments& arguments, const Process& process, Job* job) {
  OutputStream out(STDOUT_FILENO, process.interrupted, OutputStream::usually_waiting,
                   left_out_event);
  const Compared compared = make_comparison(arguments, process, job, &out);
  const int status = finish(out, compared.status);
  return compared.status == ok ? status : complain(compared.status, compared.complaint);
}

int compare(const Arguments& arguments, const Process& process, Job* job) {
  if (arguments.events) return tell_events(arguments, process, job);
  const Compared compared = make_comparison(arguments, process, job);
  if (compared.folder.empty()) return complain(compared.status, compared.complaint);
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << summary_text(compared.cases) << "\nResults: " << compared.folder << "\n";
  if (compared.status == ok) return finish(out, ok);
  out.finish();
  return complain(compared.status, compared.complaint);
}

/// The options of a command line that asks for the same comparison.
std::vector<std::string> settings_of_comparison(const Arguments& arguments) {
  std::vector<std::string> out;
  for (const std::string& setting : arguments.overrides) out.insert(out.end(), {"--set", setting});
  for (const std::string& one : arguments.cases) out.insert(out.end(), {"--case", one});
  if (!arguments.schemes.empty())
    out.insert(out.end(), {"--schemes", fmt::format("{}", fmt::join(arguments.schemes, ","))});
  if (!arguments.worlds.empty())
    out.insert(out.end(), {"--worlds", fmt::format("{}", fmt::join(arguments.worlds, ","))});
  return out;
}

}  // namespace

int compare_command(const Arguments& arguments, const Process& process) {
  return in_job({"compare", {arguments.file}, settings_of_comparison(arguments)}, arguments.job,
                process, [&](Job* job) { return compare(arguments, process, job); });
}

}  // namespace ringside
