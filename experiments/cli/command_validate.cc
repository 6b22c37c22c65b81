// ringside validate
#include <unistd.h>

#include "experiments/cli/comparison.h"
#include "experiments/report/published.h"

namespace ringside {

int validate_command(Arguments arguments, const Process& process) {
  std::vector<CaseSummary> cases;
  int status = ok;
  for (const std::string& file : arguments.files) {
    arguments.file = file;
    Compared compared = make_comparison(arguments, process);
    if (compared.folder.empty()) return complain(compared.status, compared.complaint);
    if (compared.status != ok) status = complain(compared.status, file + ": " + compared.complaint);
    cases.insert(cases.end(), compared.cases.begin(), compared.cases.end());
  }
  const std::string text = published_text(cases);
  if (text.empty())
    return complain(wrong_input,
                    "no case of these files says what was published of it; write published_ms or "
                    "published_per_s into its [[compare.case]], or use `ringside compare`");
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << text;
  return finish(out, status);
}

}  // namespace ringside
