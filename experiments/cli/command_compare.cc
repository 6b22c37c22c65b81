// ringside compare
#include <unistd.h>

#include <iostream>
#include <optional>

#include "experiments/cli/comparison.h"
#include "experiments/cli/job_start.h"
#include "experiments/live/event_lines.h"

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

}  // namespace

int compare_command(const Arguments& arguments, const Process& process) {
  std::optional<LedJob> led;
  try {
    if (const auto seat = agent_seat(process); seat && arguments.job.hosts.empty())
      return agent_command(*seat, arguments, process);
    led = lead_job(arguments, process);
  } catch (const std::exception& error) {
    return complain(process.interrupted() ? was_interrupted : wrong_input, error.what());
  }
  if (!led) return compare(arguments, process, nullptr);
  std::cerr << led->description << std::endl;
  const int status = compare(arguments, process, led->job.get());
  led->job.reset();
  if (led->ssh) std::cerr << led->ssh->finish() << std::flush;
  return status;
}

}  // namespace ringside
