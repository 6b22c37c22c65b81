// ringside compare
#include <unistd.h>

#include "core/base/error.h"
#include "experiments/cli/comparison.h"
#include "experiments/cli/job_start.h"
#include "experiments/live/event_lines.h"

namespace ringside {
namespace {

/// Makes the comparison, and prints its events in place of its tables.
int tell_events(const Arguments& arguments, const Process& process) {
  OutputStream out(STDOUT_FILENO, process.interrupted, OutputStream::usually_waiting,
                   left_out_event);
  const Compared compared = make_comparison(arguments, process, &out);
  const int status = finish(out, compared.status);
  return compared.status == ok ? status : complain(compared.status, compared.complaint);
}

}  // namespace

int compare_command(const Arguments& arguments, const Process& process) {
  try {
    if (const auto seat = agent_seat(process); seat && arguments.job.hosts.empty())
      return agent_command(*seat, arguments, process);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  if (arguments.events) return tell_events(arguments, process);
  const Compared compared = make_comparison(arguments, process);
  if (compared.folder.empty()) return complain(compared.status, compared.complaint);
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << summary_text(compared.cases) << "\nResults: " << compared.folder << "\n";
  if (compared.status == ok) return finish(out, ok);
  out.finish();
  return complain(compared.status, compared.complaint);
}

}  // namespace ringside
