// A comparison from its experiment file to its results, for the commands that make one.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "experiments/runner/report/report.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/experiment_arguments.h"

namespace ringside::runner {
class Job;
class ResultsFolder;
}  // namespace ringside::runner

namespace ringside::tools::cli {

/// The arguments of a comparison.
struct ComparisonArguments {
  ExperimentArguments experiment{};
  std::vector<std::string> cases{}, schemes{};  // cases that are added; schemes that run alone
  std::vector<std::int64_t> worlds{};           // that run alone
  bool quick = false;                           // runner::make_quick()
  ResumeArguments resume{};
  std::string results = "results";  // the folder of the folder of results
};

struct Compared {
  int status = ok;          // the exit status of a command that makes no other comparison
  std::string complaint{};  // why the status is not ok
  std::string note{};  // the missing parts of the results, as one line; empty if nothing is missing
  std::string folder{};  // of the results; empty if nothing was compared
  std::vector<runner::CaseSummary> cases{};
};

/// Makes the comparison of the experiment file, prints progress on standard error, and writes
/// results and summary. Blocks. Checks all of the input before it touches a file. `job` starts the
/// ranks, if there is one, and outlives the call; else they are processes of this one. `events`
/// also gets the comparison's events as lines of JSON, of which the last one is its end; null: no
/// events are written.
Compared make_comparison(const ComparisonArguments& arguments, const Process& process,
                         runner::Job* job = nullptr, std::ostream* events = nullptr);

/// Writes summary.json and summary.md of a comparison that is called `name`.
void write_summary(runner::ResultsFolder& folder, const std::string& name,
                   const std::vector<runner::CaseSummary>& cases);

}  // namespace ringside::tools::cli
