// ringside explain
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/whole_file.h"
#include "core/plan/device_traits.h"
#include "core/sim/world.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/results/saved_results.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/output_files.h"
#include "experiments/tools/explain/explanation.h"

namespace ringside::tools::cli {
namespace {

struct ExplainArguments {
  std::string folder;
  std::string case_label;  // empty: all cases
  int only_world = 0;      // 0: cases of any world
  bool trials = true;
  std::string json;
};

/// The file that `calibrate` writes if it has the same --results as the `compare` that made these
/// results.
std::filesystem::path machine_beside(const std::filesystem::path& results) {
  const std::filesystem::path parent =
      std::filesystem::absolute(results / "").parent_path().parent_path();
  return machine_file(parent.string());
}

/// Finds the calibration of this machine, for the cases that ran on its CPU; if there is none,
/// `ground` gets the reason.
void find_machine(const std::vector<RunRecord>& rows, const std::filesystem::path& results,
                  explain::WhatIfSetup& ground) {
  std::set<std::int64_t> threads;
  for (const RunRecord& row : rows)
    if (!row.plan.cluster && device_traits(row.plan.device.kind).on_processor)
      threads.insert(row.plan.device.threads);
  if (threads.empty()) return;
  const std::filesystem::path file = machine_beside(results);
  if (!std::filesystem::exists(file)) {
    ground.no_machine = fmt::format(
        "this machine is not calibrated; `ringside calibrate` makes {}, which simulations need",
        file.string());
    return;
  }
  sim::ClusterSpec cluster = runner::read_cluster(file);
  for (const std::int64_t number : threads)
    if (cluster.name == calibrate::calibration_name(number)) {
      ground.machine = {.cluster = std::move(cluster), .threads = number};
      return;
    }
  ground.no_machine = fmt::format(
      "{} describes '{}', which is not this machine with the threads of these cases; run `ringside "
      "calibrate` here",
      file.string(), cluster.name);
}

/// The causes of the failed cases that are asked for.
std::string failures_text(const std::vector<RunRecord>& rows, const ExplainArguments& arguments) {
  std::string out;
  for (const runner::CaseSummary& one : explain::failed_cases(rows))
    if ((arguments.case_label.empty() || one.label() == arguments.case_label) &&
        (arguments.only_world == 0 || one.plan.world == arguments.only_world))
      out += fmt::format("{}, world {}\nFAILED: {}\n", one.label(), one.plan.world, one.runs.error);
  return out;
}

int explain_results(const ExplainArguments& arguments, const Process& process) {
  OutputStream errors(STDERR_FILENO, process.interrupted);
  runner::SavedResults results;
  std::vector<explain::Evidence> all;
  std::vector<const explain::Evidence*> chosen;
  std::string failures;
  OutputFile json;
  explain::WhatIfSetup ground;
  try {
    results = runner::read_results(arguments.folder);
    for (const std::string& complaint : results.complaints) errors << complaint << std::endl;
    all = explain::evidence_of(results.rows, results.folder);
    failures = failures_text(results.rows, arguments);
    if (failures.empty() || arguments.case_label.empty())
      chosen = explain::cases_called(all, arguments.case_label, arguments.only_world);
    if (!arguments.json.empty()) json = check_output("--json", arguments.json);
    if (arguments.trials) {
      sim::require_simgrid();
      find_machine(results.rows, results.folder, ground);
      ground.simulate = runner::parallel_simulations(rank_start(process, errors),
                                                     std::max(1, allowed_cores().value_or(1)));
    }
  } catch (const std::exception& error) {
    errors.finish();
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  const explain::Detail detail =
      arguments.case_label.empty() ? explain::Detail::brief : explain::Detail::full;
  OutputStream out(STDOUT_FILENO, process.interrupted);
  try {
    nlohmann::ordered_json cases = nlohmann::ordered_json::array();
    for (const explain::Evidence* one : chosen) {
      const explain::Explanation explanation = explain::explanation_of(*one, all, ground, detail);
      if (process.interrupted()) return complain(was_interrupted, "interrupted");
      out << (one == chosen.front() ? "" : "\n")
          << explain::explanation_text(explanation, ground, detail) << std::flush;
      cases.push_back(explain::explanation_json(explanation));
    }
    out << (chosen.empty() || failures.empty() ? "" : "\n") << failures;
    if (!ground.no_machine.empty())
      out << fmt::format("\nNothing was simulated: {}.\n", ground.no_machine);
    if (!json.path.empty())
      write_whole(
          json.path,
          nlohmann::ordered_json{{"experiment", results.name}, {"cases", cases}}.dump(2) + "\n");
    errors.finish();
    return finish(out, ok);
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

}  // namespace

Execute explain_command(CommandOptions& options) {
  options.summary(
      "explain the time of a comparison's steps: the critical path, hidden and "
      "exposed communication with its causes, the distance of a case from the least "
      "bytes and from compute alone, remedies, and the simulator's predictions for "
      "them");
  const auto arguments = std::make_shared<ExplainArguments>();
  options.add("RESULTS", arguments->folder, "the folder of the results, as results/quickstart")
      .required();
  options.add("CASE", arguments->case_label,
              "a case, by its name in the table; without one all cases are explained, each in a "
              "few lines");
  options.add("--world", arguments->only_world, "only cases with this number of workers")
      .positive()
      .type("N");
  options.clearing_flag("--no-trials", arguments->trials, "do not simulate the remedies");
  options.add("--json", arguments->json, "also write the explanations to this file, as JSON")
      .type("FILE");
  return [arguments](const Process& process) { return explain_results(*arguments, process); };
}

}  // namespace ringside::tools::cli
