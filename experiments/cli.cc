#include "experiments/cli.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <optional>

#include "core/base/error.h"
#include "core/cluster/launch.h"
#include "experiments/environment.h"
#include "experiments/planner.h"
#include "experiments/rank.h"
#include "experiments/registry.h"
#include "experiments/report.h"
#include "experiments/runner.h"

namespace ringside {
namespace {

constexpr std::string_view version = "ringside 0.1";
constexpr int ok = 0, run_failed = 1, wrong_input = 2, was_interrupted = 130;

struct Arguments {
  std::string file;
  std::vector<std::string> overrides;
  std::vector<std::string> schemes;
  std::vector<std::int64_t> worlds;
  bool resume = false;
  std::string results = "results";
  std::string scheme;
  int world = 1;
  std::string output;
  int socket = -1;
};

int complain(int status, const std::string& what) {
  std::string line = what;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cerr << "ringside: " << line << std::endl;
  return status;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Columns of the terminal on standard error; 0 if there is none.
int terminal_columns() {
  if (!isatty(STDERR_FILENO)) return 0;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

RankStart rank_start(const Process& process) {
  return {process.program, {"rank"}, process.interrupted};
}

nlohmann::ordered_json environment_of(const Process& process) {
  return describe_environment(process.environment, std::filesystem::canonical(process.program));
}

// ---- compare

struct Comparison {
  std::string name;
  std::vector<RunPlan> runs, remaining;
  std::vector<Row> rows;  // of earlier runs that need not be made again
  DataState data;
  std::optional<ResultsFolder> folder;
};

/// All that can be wrong about the input is found here, before a file is touched.
void prepare(Comparison& comparison, const Arguments& arguments, const Process& process) {
  ExperimentConfig config = read_experiment(arguments.file, arguments.overrides);
  if (!arguments.schemes.empty()) config.compare.schemes = arguments.schemes;
  if (!arguments.worlds.empty()) config.compare.worlds = arguments.worlds;
  comparison.name = config.name;
  comparison.runs = plan_comparison(config);
  check_inputs(comparison.runs.front());
  comparison.data = data_state(config.data);
  const auto results = std::filesystem::path(arguments.results) / config.name;
  check_apart(config.data, results);
  comparison.folder.emplace(results);
  if (arguments.resume) {
    comparison.rows = comparison.folder->read_rows();
    check_same_experiment(comparison.rows, comparison.runs);
    if (const auto there = comparison.folder->read_environment(); !comparison.rows.empty() && there)
      check_same_environment(*there, environment_of(process));
    const auto before = comparison.folder->read_data_state();
    if (const auto changed = before ? first_change(*before, comparison.data) : "";
        !comparison.rows.empty() && !changed.empty())
      throw Error("--resume: data.path: {} has changed since; leave --resume out to start anew",
                  changed);
  }
  comparison.remaining = remaining_runs(comparison.runs, comparison.rows);
}

void write_summary(Comparison& comparison, const std::vector<Row>& rows) {
  const auto cases = summarise(rows);
  const std::string text = summary_text(cases);
  comparison.folder->write("summary.json", summary_json(comparison.name, cases).dump(2) + "\n");
  comparison.folder->write("summary.md", "# " + comparison.name + "\n\n" + text);
  std::cout << "\n" << text << "\nResults: " << comparison.folder->path().string() << std::endl;
}

int run(Comparison& comparison, const Process& process) {
  ResultsFolder& folder = *comparison.folder;
  folder.start(comparison.rows);
  folder.write("plan.json", plan_json(comparison.runs, comparison.data).dump(2) + "\n");
  folder.write("environment.json", environment_of(process).dump(2) + "\n");
  if (!comparison.rows.empty())
    std::cerr << fmt::format("{} of {} runs are there already",
                             comparison.runs.size() - comparison.remaining.size(),
                             comparison.runs.size())
              << std::endl;
  ProgressDisplay display(std::cerr, terminal_columns(), comparison.remaining, seconds_now);
  const ComparisonOutcome outcome =
      run_comparison(comparison.remaining, std::move(comparison.rows), comparison.data, folder,
                     rank_start(process), display);
  if (outcome.interrupted)
    return complain(was_interrupted, "interrupted; go on with the same command and --resume");
  write_summary(comparison, outcome.rows);
  const auto failed = std::count_if(outcome.rows.begin(), outcome.rows.end(),
                                    [](const Row& row) { return row.status != "ok"; });
  if (failed == 0) return ok;
  return complain(run_failed,
                  fmt::format("{} of {} runs failed; see the table", failed, outcome.rows.size()));
}

int compare(const Arguments& arguments, const Process& process) {
  Comparison comparison;
  try {
    prepare(comparison, arguments, process);
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  try {
    return run(comparison, process);
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

// ---- train

/// Fails before the run, not after it, where the file cannot be written, and leaves it as it is.
/// The file itself where `path` is a link to it; empty for no path.
std::filesystem::path check_output(const std::string& path) {
  if (path.empty()) return {};
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))
    throw Error("--output {}: is there and no file; name a file", path);
  auto file = std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  if (!file.has_filename() || access(file.parent_path().c_str(), W_OK | X_OK) != 0)
    throw Error("--output {}: cannot be written; name a file in a folder that exists", path);
  return file;
}

int train(const Arguments& arguments, const Process& process) {
  RunPlan plan;
  std::filesystem::path output;
  try {
    plan = plan_training(read_experiment(arguments.file, arguments.overrides), arguments.scheme,
                         arguments.world);
    check_inputs(plan);
    output = check_output(arguments.output);
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  double last_line = 0;
  const RunOutcome outcome = run_plan(plan, rank_start(process), [&](const Step& step) {
    const double now = seconds_now();
    const bool in_between = step.steps_done > 1 && step.steps_done < plan.train.steps;
    if (in_between && !step.held_out_loss && now - last_line < 1) return;
    last_line = now;
    std::cout << fmt::format("step {:>{}}/{}  loss {:.4f}  {:.1f} samples/s{}", step.steps_done,
                             std::to_string(plan.train.steps).size(), plan.train.steps, step.loss,
                             static_cast<double>(plan.train.global_batch) / step.seconds,
                             step.held_out_loss
                                 ? fmt::format("  held-out loss {:.4f}", *step.held_out_loss)
                                 : "")
              << std::endl;
  });
  if (outcome.interrupted) return complain(was_interrupted, "interrupted");
  if (outcome.row.status != "ok") return complain(run_failed, outcome.row.error);
  std::cout << "\n" << row_text(outcome.row) << std::flush;
  if (output.empty()) return ok;
  const nlohmann::ordered_json written = {{"environment", environment_of(process)},
                                          {"row", to_json(outcome.row)}};
  write_whole(output, written.dump(2) + "\n");
  return ok;
}

// ---- list

template <class Table>
void list_table(const Table& rows, std::string_view title) {
  std::cout << title << "\n";
  for (const auto& row : rows) std::cout << fmt::format("  {:<8} {}\n", row.name, row.summary);
}

int list() {
  std::cout << "schemes (compare.schemes; options in [scheme.NAME])\n";
  for (const SchemeRow& row : scheme_rows()) {
    std::cout << fmt::format("  {:<8} {}\n", row.name, row.summary);
    for (const auto& [option, value] : row.defaults.items())
      std::cout << fmt::format("             {:<22} {}\n", option + " = " + value.dump(),
                               row.descriptions.at(option).template get<std::string>());
  }
  list_table(model_rows(), "models (model.kind)");
  list_table(dataset_rows(), "data sets (data.kind)");
  list_table(device_rows(), "devices (device.kind)");
  std::cout << "keys of an experiment file, with their defaults\n";
  const auto keys = [](std::string_view table, auto fields) {
    visit_fields(fields, [&](std::string_view name, auto& field, std::string_view description) {
      std::cout << fmt::format("  {:<40} {}\n",
                               fmt::format("{}.{} = {}", table, name, nlohmann::json(field).dump()),
                               description);
    });
  };
  keys("model", ModelConfig{});
  keys("data", DataConfig{});
  keys("train", TrainConfig{});
  keys("optimizer", OptimizerConfig{});
  keys("device", DeviceConfig{});
  keys("compare", CompareConfig{});
  std::cout << std::flush;
  return ok;
}

// ---- rank

int rank(const Arguments& arguments) {
  std::optional<LauncherLink> link;
  try {
    link.emplace(arguments.socket);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  try {
    const auto report = [&](const Progress& progress) {
      nlohmann::json told = {
          {"step", progress.step}, {"loss", progress.loss}, {"seconds", progress.seconds}};
      if (progress.held_out_loss) told["held_out_loss"] = *progress.held_out_loss;
      link->report_progress(told);
    };
    const RankRecord record =
        run_rank(link->plan(), link->rank(), link->store(),
                 {report, [&](const std::string& error) { link->fail(error); }});
    link->finish(to_json(record));
    return ok;
  } catch (const std::exception& error) {
    link->fail(error.what());
    return run_failed;
  }
}

// ---- the command line

void add_experiment(CLI::App& command, Arguments& arguments) {
  command.add_option("FILE", arguments.file, "the experiment file (TOML)")->required();
  command
      .add_option("--set", arguments.overrides,
                  "override a key of the file, as in train.steps=100, data.path=text.txt or "
                  "scheme.ps.servers=4; may be given several times")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace

int run_command_line(const Process& process) {
  Arguments arguments;
  CLI::App app(
      "Trains one model under every way of keeping N workers in step, and shows them side by "
      "side.\n\n"
      "Begin with:  ringside compare experiments/quickstart.toml\n",
      "ringside");
  app.set_version_flag("--version", std::string(version), "print the version");
  app.set_help_flag("--help,-h", "print this help; `ringside COMMAND --help` says more");
  app.require_subcommand(1);

  CLI::App* compare_command = app.add_subcommand(
      "compare", "run every scheme at every world of an experiment, and print one table");
  add_experiment(*compare_command, arguments);
  compare_command->add_option("--schemes", arguments.schemes, "only these, as in ddp,fsdp")
      ->delimiter(',')
      ->type_name("A,B")
      ->allow_extra_args(false);
  compare_command->add_option("--worlds", arguments.worlds, "only these, as in 1,2")
      ->delimiter(',')
      ->type_name("N,M")
      ->allow_extra_args(false);
  compare_command->add_flag("--resume", arguments.resume,
                            "keep the rows of the results folder, and make only the runs that it "
                            "lacks; without it they are replaced");
  compare_command
      ->add_option("--results", arguments.results,
                   "where results go: into a folder of the experiment's name in this one")
      ->type_name("DIR")
      ->capture_default_str();

  CLI::App* train_command =
      app.add_subcommand("train", "run one scheme once, and print its loss as it goes");
  add_experiment(*train_command, arguments);
  train_command->add_option("--scheme", arguments.scheme, "which (see `ringside list`)")
      ->type_name("NAME")
      ->required();
  train_command->add_option("--world", arguments.world, "number of workers")
      ->type_name("N")
      ->capture_default_str();
  train_command
      ->add_option("--output", arguments.output, "write the run's row, and the environment (JSON)")
      ->type_name("FILE");

  CLI::App* list_command = app.add_subcommand(
      "list", "what this build has: schemes, models, data sets, devices, and all keys");
  // What launch() starts; group "" hides it from the help.
  CLI::App* rank_command = app.add_subcommand("rank", "one rank of a run")->group("");
  rank_command->add_option("SOCKET", arguments.socket)->required();

  try {
    // CLI11 takes them in reverse.
    app.parse(std::vector<std::string>(process.arguments.rbegin(), process.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(wrong_input, fmt::format("{}; see `ringside --help`", error.what()));
  }
  try {
    if (compare_command->parsed()) return compare(arguments, process);
    if (train_command->parsed()) return train(arguments, process);
    if (list_command->parsed()) return list();
    return rank(arguments);
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

}  // namespace ringside
