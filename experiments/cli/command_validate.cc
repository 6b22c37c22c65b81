// ringside validate
#include <unistd.h>

#include "core/base/explain.h"
#include "experiments/benchmark/published_collectives.h"
#include "experiments/cli/comparison.h"
#include "experiments/report/published.h"

namespace ringside {

int validate_command(Arguments arguments, const Process& process) {
  std::vector<PublishedFigure> figures;
  int status = ok;
  try {
    std::vector<std::string> collectives;
    for (const std::string& file : arguments.files) {
      if (lists_collectives(file)) {
        read_collectives(file);  // before any run is made
        collectives.push_back(file);
        continue;
      }
      arguments.file = file;
      Compared compared = make_comparison(arguments, process);
      if (compared.folder.empty()) return complain(compared.status, compared.complaint);
      if (compared.status != ok)
        status = complain(compared.status, file + ": " + compared.complaint);
      const auto of_file = published_figures(compared.cases);
      figures.insert(figures.end(), of_file.begin(), of_file.end());
    }
    // Collectives are simulated in this process, the runs of experiments in processes of their own,
    // which must start while there is no simulated world here.
    for (const std::string& file : collectives) {
      const auto of_file = simulate_collectives(file);
      figures.insert(figures.end(), of_file.begin(), of_file.end());
    }
  } catch (const std::exception& error) {
    return complain(wrong_input, explain(error));
  }
  const std::string text = published_text(figures);
  if (text.empty())
    return complain(wrong_input,
                    "no case of these files says what was published of it; write published_ms or "
                    "published_per_s into its [[compare.case]], or use `ringside compare`");
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << "\n" << text;
  return finish(out, status);
}

}  // namespace ringside
