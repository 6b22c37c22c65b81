// ringside compare
#include <unistd.h>

#include "experiments/cli/comparison.h"

namespace ringside {

int compare_command(const Arguments& arguments, const Process& process) {
  const Compared compared = make_comparison(arguments, process);
  if (compared.folder.empty()) return complain(compared.status, compared.complaint);
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << summary_text(compared.cases) << "\nResults: " << compared.folder << "\n";
  if (compared.status == ok) return finish(out, ok);
  out.finish();
  return complain(compared.status, compared.complaint);
}

}  // namespace ringside
