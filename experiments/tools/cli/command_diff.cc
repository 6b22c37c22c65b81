// ringside diff
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/whole_file.h"
#include "experiments/runner/report/diff.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {

namespace {

struct DiffArguments {
  std::string folder_a, folder_b;
  double threshold = 0.03, confidence = 95;  // a share, and percent
  std::string json;
};

/// The share of "3%" or "0.03"; none for any other text.
std::optional<double> share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (percent) value /= 100;
  if (!(value >= 0 && value < 1)) return {};
  return value;
}

int diff(const DiffArguments& arguments, const Process& process) {
  runner::Diff found;
  try {
    check_output("--json", arguments.json);
    const runner::SavedResults a = runner::read_results(arguments.folder_a);
    const runner::SavedResults b = runner::read_results(arguments.folder_b);
    found = runner::make_diff(a, b, {arguments.threshold, arguments.confidence / 100});
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  OutputStream out(STDOUT_FILENO, process.interrupted);
  out << runner::diff_text(found);
  if (!arguments.json.empty()) write_whole(arguments.json, to_json(found).dump(2) + "\n");
  return finish(out, runner::regressed(found) ? has_regressed : ok);
}

}  // namespace

Execute diff_command(CommandOptions& options) {
  options.summary(
      "compare two results folders row by row: differences of environment and "
      "configuration, changes of speed, and changes of memory, bytes, losses and "
      "proofs");
  options.footer(
      "Ends with status 3 if something became worse (a regression), 0 if nothing did, 2 if the "
      "folders cannot be compared.\n"
      "Speeds are compared as samples/s divided by those of `single` in the same repeat, or as "
      "samples/s where that is not possible, by the test of Mann and Whitney; those of simulated "
      "rows exactly. Ten rows need at least 6 repeats on each side (compare.repeats).");
  const auto arguments = std::make_shared<DiffArguments>();
  options.add("A", arguments->folder_a, "the results before: a folder that `compare` wrote")
      .required();
  options.add("B", arguments->folder_b, "the results after").required();
  options
      .parsed(
          "--threshold",
          [arguments](const std::string& text) -> std::string {
            const auto value = share(text);
            if (!value) return "'" + text + "' is no share such as 3%";
            arguments->threshold = *value;
            return "";
          },
          "the smallest change that counts: of speed, where it is shown, of memory and of bytes; "
          "default: 3%")
      .type("SHARE");
  options
      .add("--confidence", arguments->confidence,
           "percent: how sure a change of speed must be, over all rows together")
      .between(50.0, 99.99)
      .type("PERCENT")
      .shows_default();
  options.add("--json", arguments->json, "also write the differences to this file").type("FILE");
  return [arguments](const Process& process) { return diff(*arguments, process); };
}

}  // namespace ringside::tools::cli
