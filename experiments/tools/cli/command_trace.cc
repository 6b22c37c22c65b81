// ringside trace
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "experiments/runner/results/read_trace.h"
#include "experiments/runner/results/saved_results.h"
#include "experiments/tools/chakra/trace_files.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {
namespace {

struct TraceArguments {
  std::string folder, run, chakra;  // the folder of results; the run; the folder of Chakra's traces
};

/// The runs that have left a trace, in the order in which they were made.
std::vector<const RunRecord*> traced_rows(const runner::SavedResults& results) {
  std::vector<const RunRecord*> out;
  for (const RunRecord& row : results.rows) {
    const bool again = std::any_of(
        out.begin(), out.end(), [&](const RunRecord* one) { return one->plan.id == row.plan.id; });
    if (!again &&
        std::filesystem::exists(results.folder / "traces" / fmt::format("{}.json", row.plan.id)))
      out.push_back(&row);
  }
  return out;
}

/// The run of that id, or the first repeat of the one of that label. Throws Error that lists the
/// ids from which to choose.
std::string choose_run(const runner::SavedResults& results, const std::string& asked) {
  const std::vector<const RunRecord*> rows = traced_rows(results);
  if (rows.empty()) throw Error("{} has no traces", results.folder.string());
  std::vector<std::string> ids, all;
  for (const RunRecord* row : rows) {
    if (row->plan.id == asked) return asked;
    if (row->plan.repeat > 0) continue;
    all.push_back(row->plan.id);
    if (asked.empty() || row->plan.listing.label == asked) ids.push_back(row->plan.id);
  }
  if (ids.size() == 1) return ids[0];
  if (ids.empty())
    throw Error("no run of {} is called {}; its runs are {}", results.folder.string(), asked,
                fmt::join(all, ", "));
  throw Error("{} has {} runs{}; name one: {}", results.folder.string(), ids.size(),
              asked.empty() ? "" : " that are called " + asked, fmt::join(ids, ", "));
}

int write_trace(const TraceArguments& arguments) {
  runner::SavedResults results;
  std::string run;
  try {
    results = runner::read_results(arguments.folder);
    run = choose_run(results, arguments.run);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  const std::filesystem::path file = results.folder / "traces" / (run + ".json");
  if (arguments.chakra.empty()) {
    std::cout << fmt::format("{}: open it in ui.perfetto.dev\n", file.string());
    return ok;
  }
  const chakra::Run graphs = chakra::graphs_of(runner::read_trace_file(file));
  chakra::write_files(graphs, arguments.chakra, run);
  std::size_t nodes = 0;
  for (const auto& rank : graphs.ranks) nodes += rank.size();
  std::cout << fmt::format("{}/{}.RANK.et: {} of {}; their groups are in {}\n", arguments.chakra,
                           run, counted(static_cast<std::int64_t>(nodes), "operation"),
                           counted(static_cast<std::int64_t>(graphs.ranks.size()), "rank"),
                           run + ".groups.json");
  return ok;
}

}  // namespace

Execute trace_command(CommandOptions& options) {
  options.summary(
      "print the path of a run's trace, or write the trace in another program's "
      "format");
  const auto arguments = std::make_shared<TraceArguments>();
  options.add("RESULTS", arguments->folder, "the folder of a comparison").required();
  options.add("RUN", arguments->run, "the run: its id, or its label, which means the first repeat");
  options
      .add("--chakra", arguments->chakra,
           "write Chakra execution traces, which ASTRA-sim reads, to DIR: a file for each rank, "
           "RUN.RANK.et, and the groups of ranks, RUN.groups.json")
      .type("DIR");
  return [arguments](const Process&) { return write_trace(*arguments); };
}

}  // namespace ringside::tools::cli
