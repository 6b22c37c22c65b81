#include "experiments/tools/cli/comparison.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/seconds_now.h"
#include "core/base/time_of_day.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/hosts/environments.h"
#include "experiments/runner/hosts/job.h"
#include "experiments/runner/hosts/placement.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/mpi_of.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/environment_history.h"
#include "experiments/runner/report/readable_json.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/report_page.h"
#include "experiments/runner/results/environment.h"
#include "experiments/runner/run/going_on.h"
#include "experiments/runner/run/runner.h"
#include "experiments/tools/cli/calibrated.h"
#include "experiments/tools/watch/display.h"
#include "experiments/tools/watch/event_lines.h"
#include "experiments/tools/watch/metrics_file.h"

namespace ringside::tools::cli {
namespace {

struct Comparison {
  runner::Experiment experiment;
  std::string name;
  std::vector<MeasuredSpeeds> speeds;  // from which shares of the runs follow
  std::vector<RunPlan> runs, remaining;
  std::vector<RunRecord> rows;  // of earlier runs that need not be repeated
  runner::DataState data;
  int most_attempts = 1;
  std::optional<runner::CalibratedMachine> machine;  // predicts the runs
  std::optional<runner::ResultsFolder> folder;
  runner::Job* job = nullptr;  // its processes start ranks of real devices; none: this one does

  /// Whether runs go on without hosts that are gone, and the comparison with them.
  bool goes_on_without_hosts() const {
    return std::ranges::any_of(runs, [](const RunPlan& run) { return run.faults.least_world > 0; });
  }
  runner::Agents agents() const {
    if (!job) return {};
    return {job->hosts(), [job = job](const RunPlan& run) { return job->sidecar(run); },
            [job = job, moves = goes_on_without_hosts()](const RunPlan& run) {
              return job->place_on_left(run, moves);
            }};
  }
};

void plan(Comparison& comparison) {
  comparison.runs = runner::plan_comparison(comparison.experiment, allowed_cores().value_or(0),
                                            comparison.speeds);
  if (const runner::Job* job = comparison.job)
    runner::place_on_hosts(comparison.runs, job->agents(),
                           [job](const std::string& kind) { return job->devices(kind); });
}

/// Checks all of the input before any file is touched and any speed is measured.
void prepare(Comparison& comparison, const ComparisonArguments& arguments, const Process& process) {
  runner::Experiment& experiment = comparison.experiment;
  experiment = runner::read_experiment(arguments.experiment.file, arguments.experiment.settings,
                                       arguments.cases);
  runner::limit_to(experiment, arguments.schemes, arguments.worlds);
  if (arguments.quick) runner::make_quick(experiment);
  experiment.common.in_job = comparison.job != nullptr;
  if (const runner::Job* job = comparison.job)
    for (const runner::HostRoom& room : runner::rooms_of(job->agents()))
      experiment.common.host_slots.push_back(room.slots);
  comparison.name = experiment.common.name;
  plan(comparison);
  comparison.most_attempts = static_cast<int>(experiment.common.compare.attempts);
  runner::check_inputs(comparison.runs);
  runner::check_libraries(comparison.runs);
  if (std::any_of(comparison.runs.begin(), comparison.runs.end(),
                  [](const RunPlan& run) { return !run.cluster; }))
    check_readable(process);
  if (comparison.job) comparison.job->check_mpi(comparison.runs);
  comparison.machine =
      calibrated_machine(comparison.runs, arguments.results, "No predictions", comparison.job);
  if (comparison.machine && balances_by_measured_time(comparison.runs)) {
    experiment.common.calibrated = comparison.machine;
    plan(comparison);
  }
  comparison.data = runner::data_state(comparison.runs, runner::Digests::taken);
  if (comparison.job) comparison.job->check_data(comparison.runs);
  const auto results = std::filesystem::path(arguments.results) / comparison.name;
  for (const RunPlan& run : comparison.runs) runner::check_apart(run.data, results);
  comparison.folder.emplace(results);
  if (arguments.resume.resume) {
    comparison.rows = comparison.folder->read_rows();
    if (const auto there = comparison.folder->read_environment();
        !comparison.rows.empty() && there && !arguments.resume.mixed)
      runner::check_same_environment(*there, environment_of(process, comparison.runs));
    const auto before = comparison.folder->read_data_state();
    if (const auto changed = before ? runner::first_other_content(*before, comparison.data) : "";
        !comparison.rows.empty() && !changed.empty())
      throw Error(
          "--resume: {} has changed since the earlier runs; leave --resume out to start anew",
          changed);
    // The existing rows were made with shares that follow from the stored speeds.
    if (!comparison.rows.empty()) comparison.speeds = comparison.folder->read_speeds();
    if (!comparison.speeds.empty()) plan(comparison);
    // Runs that wait for speeds, and records without a run, are handled in settle().
    std::vector<RunPlan> known;
    std::copy_if(comparison.runs.begin(), comparison.runs.end(), std::back_inserter(known),
                 [](const RunPlan& run) { return !waits_for_speeds(run); });
    std::vector<RunRecord> of_known;
    std::copy_if(comparison.rows.begin(), comparison.rows.end(), std::back_inserter(of_known),
                 [&](const RunRecord& row) {
                   return std::any_of(known.begin(), known.end(),
                                      [&](const RunPlan& run) { return run.id == row.plan.id; });
                 });
    if (!of_known.empty()) runner::check_same_experiment(of_known, known);
  }
}

/// Plans the runs again if some have waited for speeds, which are known by now, and finds the runs
/// that are still to be made. With --resume, those that were broken off go on from their
/// checkpoints.
void settle(Comparison& comparison, bool resume) {
  if (!comparison.speeds.empty()) plan(comparison);
  runner::check_same_experiment(comparison.rows, comparison.runs);
  runner::take_lines(comparison.rows, comparison.runs);
  comparison.remaining =
      runner::remaining_runs(comparison.runs, comparison.rows, comparison.most_attempts);
  for (RunPlan& run : comparison.remaining) {
    if (resume) run.resume = runner::unfinished_checkpoint(run);
    if (!run.resume.empty()) runner::check_same_run(run, run.resume);
  }
}

/// Writes report.html. Returns one line with the reason why there is none; empty if there is one.
std::string write_report(runner::ResultsFolder& folder, const std::vector<RunRecord>& rows,
                         const std::vector<runner::CaseSummary>& cases, const Process& process) {
  const runner::PageParts parts = runner::built_in_page();
  if (!runner::can_draw(parts)) return "No report.html: " + runner::how_to_get_reports();
  const auto environment = folder.read_environment().value_or(nlohmann::json());
  const auto report = runner::report_of(
      {.folder = folder.path().string(), .rows = rows, .cases = cases, .environment = environment});
  folder.write("report.html", runner::report_page(parts, {report}, process.built_commit));
  return "";
}

std::string how_to_go_on_without(const std::string& agents) {
  return fmt::format(
      "{} cannot be reached any more; start the job again, with --resume for the runs that are "
      "left",
      agents);
}

/// Makes the remaining runs, and writes the summary of all rows.
Compared make_runs(Comparison& comparison, const runner::RankStart& start, runner::EventFeed& feed,
                   const Process& process) {
  runner::Predictor predictor(comparison.machine, start);
  runner::RunMaker maker = runner::run_maker(start, comparison.most_attempts);
  const bool needs_all_hosts = comparison.job && !comparison.goes_on_without_hosts();
  if (needs_all_hosts) maker.obstacle = [&] { return comparison.job->lost(); };
  const runner::ComparisonOutcome outcome =
      runner::run_comparison(comparison.remaining, std::move(comparison.rows), comparison.data,
                             *comparison.folder, maker, predictor, feed);
  if (outcome.interrupted && needs_all_hosts && !comparison.job->lost().empty())
    return {run_failed, how_to_go_on_without(comparison.job->lost())};
  if (outcome.interrupted)
    return {was_interrupted,
            "interrupted; go on with the same command and --resume" +
                (outcome.unreplayed.empty()
                     ? ""
                     : fmt::format("; run {} is kept, but was not replayed: its row says so, and "
                                   "its record is in histories/",
                                   outcome.unreplayed))};
  Compared out{.folder = comparison.folder->path().string(),
               .cases = runner::summarise(outcome.rows)};
  write_summary(*comparison.folder, comparison.name, out.cases);
  out.note = write_report(*comparison.folder, outcome.rows, out.cases, process);
  comparison.folder->check_there();
  const auto failed = std::count_if(outcome.rows.begin(), outcome.rows.end(),
                                    [](const RunRecord& row) { return row.status != "ok"; });
  if (!outcome.obstacle.empty()) {
    out.status = run_failed;
    out.complaint = how_to_go_on_without(outcome.obstacle);
  } else if (failed > 0) {
    out.status = run_failed;
    out.complaint = fmt::format("{} of {} failed; see the table", failed,
                                counted(static_cast<std::int64_t>(outcome.rows.size()), "run"));
  }
  return out;
}

runner::ComparisonStatus name_of_status(int status) {
  switch (status) {
    case ok:
      return runner::ComparisonStatus::ok;
    case wrong_input:
      return runner::ComparisonStatus::refused;
    case was_interrupted:
      return runner::ComparisonStatus::interrupted;
    default:
      return runner::ComparisonStatus::failed;
  }
}

runner::ComparisonEnded ended(const Compared& compared) {
  return {.status = name_of_status(compared.status),
          .exit_status = compared.status,
          .error = compared.complaint,
          .folder = compared.folder};
}

Compared run(Comparison& comparison, const Process& process, watch::EventLines* lines) {
  if (!comparison.speeds.empty()) say_shares(comparison.runs, process);
  runner::ResultsFolder& folder = *comparison.folder;
  nlohmann::ordered_json environment = environment_of(process, comparison.runs);
  if (comparison.job)
    environment = runner::with_hosts(environment, comparison.job->agents(), [&](int agent) {
      return comparison.job->environment(agent, !environment.at("gpu").is_null());
    });
  if (!comparison.rows.empty())
    environment = runner::with_earlier(
        environment, folder.read_environment().value_or(nlohmann::json()), comparison.rows);
  const auto before = folder.start(
      comparison.rows,
      runner::plan_json(comparison.runs, comparison.data, comparison.speeds).dump(2) + "\n",
      environment.dump(2) + "\n");
  OutputStream errors(STDERR_FILENO, process.interrupted);
  if (comparison.job)
    if (const std::string text = runner::text_of_differences(environment); !text.empty())
      errors << text << "\n";
  for (const std::string& line : runner::lines_about(comparison.data)) errors << line << "\n";
  if (!before.empty()) errors << "Earlier results are in " << before.string() << "\n";
  if (!comparison.rows.empty())
    errors << fmt::format("{} of {} {} been made already\n",
                          comparison.runs.size() - comparison.remaining.size(),
                          counted(static_cast<std::int64_t>(comparison.runs.size()), "run"),
                          comparison.runs.size() == 1 ? "has" : "have");
  for (const RunPlan& run : comparison.remaining)
    if (!run.resume.empty())
      errors << fmt::format("run {} goes on from checkpoint {}\n", run.id, run.resume);
  for (const std::string& text : runner::texts_of_earlier(environment)) errors << text << "\n";
  watch::ProgressDisplay display(
      errors, [&] { return watch::terminal_size(STDERR_FILENO, process.environment); });
  watch::EventFile file(folder.files(), runner::ResultsFolder::events_file);
  watch::MetricsFile metrics(folder.files(), runner::ResultsFolder::metrics_file);
  std::vector<runner::ProgressListener*> listeners = {&display, &file, &metrics};
  if (lines) listeners.push_back(lines);
  runner::EventFeed feed(listeners, seconds_now, time_of_day);
  runner::RankStart start = rank_start(process, errors);
  if (runner::Job* job = comparison.job) {
    start.agents = comparison.agents();
    start.interrupted = [&process, job, moves = comparison.goes_on_without_hosts()] {
      const bool lost = job->lost_idle();
      return process.interrupted() || (lost && !moves);
    };
  }
  start.on_output = [&](const std::string& text) { display.print(text); };
  feed.begin(comparison.name, comparison.most_attempts, comparison.runs, comparison.remaining,
             comparison.rows);
  Compared out;
  try {
    out = make_runs(comparison, start, feed, process);
  } catch (const std::exception& error) {
    out = {run_failed, error.what()};
  }
  display.leave();
  if (!out.note.empty()) errors << out.note << "\n";
  errors.finish();
  feed.end(ended(out));
  return out;
}

Compared from_file_to_results(const ComparisonArguments& arguments, const Process& process,
                              runner::Job* job, watch::EventLines* lines) {
  Comparison comparison;
  comparison.job = job;
  try {
    prepare(comparison, arguments, process);
  } catch (const std::exception& error) {
    return {process.interrupted() ? was_interrupted : wrong_input, error.what()};
  }
  process.catch_interrupts();
  try {
    if (!measure_missing_speeds(comparison.runs, comparison.most_attempts, process,
                                comparison.agents(), comparison.speeds))
      return {was_interrupted, "interrupted"};
  } catch (const std::exception& error) {
    return {run_failed, error.what()};
  }
  try {
    settle(comparison, arguments.resume.resume);
  } catch (const std::exception& error) {
    return {wrong_input, error.what()};
  }
  try {
    return run(comparison, process, lines);
  } catch (const std::exception& error) {
    return {process.interrupted() ? was_interrupted : run_failed, error.what()};
  }
}

}  // namespace

void write_summary(runner::ResultsFolder& folder, const std::string& name,
                   const std::vector<runner::CaseSummary>& cases) {
  folder.write("summary.json", runner::readable_json(runner::summary_json(name, cases)));
  folder.write("summary.md", "# " + name + "\n\n" + runner::summary_text(cases));
}

Compared make_comparison(const ComparisonArguments& arguments, const Process& process,
                         runner::Job* job, std::ostream* events) {
  if (!events) return from_file_to_results(arguments, process, job, nullptr);
  watch::EventLines lines(*events);
  Compared out = from_file_to_results(arguments, process, job, &lines);
  if (!lines.ended()) lines.hear({time_of_day(), ended(out)});
  return out;
}

}  // namespace ringside::tools::cli
