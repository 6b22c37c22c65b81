// ringside diff
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/whole_file.h"
#include "experiments/runner/report/diff.h"
#include "experiments/tools/cli/commands.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside {

int diff_command(const Arguments& arguments, const Process& process) {
  Diff diff;
  try {
    check_output("--json", arguments.json);
    const SavedResults a = read_results(arguments.folder_a);
    const SavedResults b = read_results(arguments.folder_b);
    diff = make_diff(a, b, {arguments.threshold, arguments.confidence / 100});
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << diff_text(diff);
  if (!arguments.json.empty()) write_whole(arguments.json, to_json(diff).dump(2) + "\n");
  return finish(out, regressed(diff) ? has_regressed : ok);
}

}  // namespace ringside
