// The commands that look at results which are there already.
#include <charconv>
#include <optional>
#include <string_view>

#include "experiments/tools/cli/cli_commands.h"

namespace ringside {
namespace {

CLI::App* add_report(CLI::App& app, Arguments& arguments) {
  CLI::App* report = app.add_subcommand(
      "report",
      "write report.html, one page with figures and tables that opens offline, of results that are "
      "there already; in the folder of the results, also summary.json and summary.md from its "
      "rows");
  report
      ->add_option("RESULTS", arguments.files,
                   "folders of comparisons, as results/quickstart; several come onto one page")
      ->required();
  report
      ->add_option("--output", arguments.output,
                   "the page; default: report.html in the folder of the results, or here if there "
                   "are several")
      ->type_name("FILE");
  report
      ->add_option("--figures", arguments.figures,
                   "also draw every figure for papers, as DIR/NAME.svg and DIR/NAME.png (needs "
                   "python3 with vl-convert, which scripts/setup fetches)")
      ->type_name("DIR");
  return report;
}

CLI::App* add_watch(CLI::App& app, Arguments& arguments) {
  CLI::App* watch = app.add_subcommand(
      "watch",
      "follow a comparison that runs in another terminal, by its folder of results, until it ends");
  watch->add_option("RESULTS", arguments.file, "the folder, as in results/quickstart")->required();
  watch->add_flag("--once", arguments.once, "print how the comparison stands now, and end");
  watch->add_flag("--json", arguments.events, "print its events, one a line, in JSON");
  return watch;
}

/// The share that "3%" or "0.03" says; none for any other text.
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

CLI::App* add_diff(CLI::App& app, Arguments& arguments) {
  CLI::App* diff = app.add_subcommand(
      "diff",
      "compare two results folders row by row: what differs in environment and configuration, "
      "what became slower or faster, and what has changed of memory, bytes, losses and proofs");
  diff->footer(
      "Ends with status 3 if something became worse (a regression), 0 if nothing did, 2 if the "
      "folders cannot be compared.\n"
      "Speeds are compared as samples/s divided by those of `single` in the same repeat, or as "
      "samples/s where that is not possible, by the test of Mann and Whitney; those of simulated "
      "rows exactly. Ten rows need at least 6 repeats on each side (compare.repeats).");
  diff->add_option("A", arguments.folder_a, "the results before: a folder that `compare` wrote")
      ->required();
  diff->add_option("B", arguments.folder_b, "the results after")->required();
  diff->add_option_function<std::string>(
          "--threshold",
          [&arguments](const std::string& text) {
            const auto value = share(text);
            if (!value)
              throw CLI::ValidationError("--threshold", "'" + text + "' is no share such as 3%");
            arguments.threshold = *value;
          },
          "the smallest change that counts: of speed, where it is shown, of memory and of bytes; "
          "default: 3%")
      ->type_name("SHARE");
  diff->add_option("--confidence", arguments.confidence,
                   "percent: how sure a change of speed must be, over all rows together")
      ->check(CLI::Range(50.0, 99.99))
      ->type_name("PERCENT")
      ->capture_default_str();
  diff->add_option("--json", arguments.json, "also write what was found to this file")
      ->type_name("FILE");
  return diff;
}

CLI::App* add_trace(CLI::App& app, Arguments& arguments) {
  CLI::App* trace = app.add_subcommand(
      "trace", "say where the trace of a run is, or write it in another program's format");
  trace->add_option("RESULTS", arguments.file, "the folder of a comparison")->required();
  trace->add_option("RUN", arguments.run,
                    "the run: its id, or its label, which means the first repeat");
  trace
      ->add_option("--chakra", arguments.chakra,
                   "write Chakra execution traces, which ASTRA-sim reads, to DIR: a file for each "
                   "rank, RUN.RANK.et, and the groups of ranks, RUN.groups.json")
      ->type_name("DIR");
  return trace;
}

CLI::App* add_explain(CLI::App& app, Arguments& arguments) {
  CLI::App* explain = app.add_subcommand(
      "explain",
      "say where the steps of a comparison went: the critical path, which communication was hidden "
      "and which was not and why, how far a case is from the least bytes and from computing alone, "
      "what to try, and what the simulator expects of that");
  explain->add_option("RESULTS", arguments.file, "the folder of the results, as results/quickstart")
      ->required();
  explain->add_option("CASE", arguments.case_label,
                      "a case, by its name in the table; without one all cases are explained, each "
                      "in a few lines");
  explain->add_option("--world", arguments.only_world, "only cases with this number of workers")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  explain->add_flag_callback(
      "--no-trials", [&arguments] { arguments.trials = false; },
      "simulate nothing of what is to be tried");
  explain->add_option("--json", arguments.json, "also write what is said to this file, as JSON")
      ->type_name("FILE");
  return explain;
}

}  // namespace

void add_result_commands(CLI::App& app, Arguments& arguments, const Process& process,
                         Commands& commands) {
  commands.push_back(
      {add_report(app, arguments), [&] { return report_command(arguments, process); }});
  commands.push_back(
      {add_watch(app, arguments), [&] { return watch_command(arguments, process); }});
  commands.push_back({add_diff(app, arguments), [&] { return diff_command(arguments, process); }});
  commands.push_back({add_trace(app, arguments), [&] { return trace_command(arguments); }});
  commands.push_back(
      {add_explain(app, arguments), [&] { return explain_command(arguments, process); }});
}

}  // namespace ringside
