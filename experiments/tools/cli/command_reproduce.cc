// ringside reproduce
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/processor.h"
#include "core/base/whole_file.h"
#include "experiments/runner/config/published_tables.h"
#include "experiments/runner/report/reproduced.h"
#include "experiments/tools/advise/published_choices.h"
#include "experiments/tools/bench/published_collectives.h"
#include "experiments/tools/cli/comparison.h"
#include "experiments/tools/cli/job_start.h"

namespace ringside::tools::cli {
namespace {

struct ReproduceArguments {
  std::vector<std::string> tables, settings;
  std::string index = "experiments/published/reproduce/tables.toml";
  ResumeArguments resume;
  std::string results = "results";
};

/// The results of one file.
struct Outcome {
  std::vector<runner::PublishedFigure> figures{};
  std::vector<runner::ReproducedChoice> choices{};
  std::string failure{};  // why there are no figures
};

/// A file, and the first table that needs it.
struct Part {
  std::string table, file;
};

std::vector<runner::PublishedTable> asked_tables(const ReproduceArguments& arguments) {
  if (!std::filesystem::is_regular_file(arguments.index))
    throw Error(
        "{}: not a file; run `ringside reproduce` in the project's folder, or name the index of "
        "the tables with --tables FILE",
        arguments.index);
  return runner::find_tables(runner::read_published_tables(arguments.index), arguments.tables);
}

/// The files of all tables, each once: those of collectives last, because these are simulated in
/// this process, and the runs of experiments in processes of their own, which must start while
/// there is no simulated world here.
std::vector<Part> parts_of(const std::vector<runner::PublishedTable>& tables) {
  std::vector<Part> parts;
  for (const runner::PublishedTable& table : tables)
    for (const std::string& file : table.files)
      if (std::none_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return part.file == file; }))
        parts.push_back({table.name, file});
  std::stable_partition(parts.begin(), parts.end(),
                        [](const Part& part) { return !bench::lists_collectives(part.file); });
  return parts;
}

/// The tables that are done so far; prints and writes each as soon as all its files are done.
class Reproduction {
 public:
  Reproduction(const std::vector<runner::PublishedTable>& tables, std::filesystem::path folder,
               std::ostream& out)
      : tables_(tables), folder_(std::move(folder)), out_(out) {}

  void add(const std::string& file, Outcome outcome) {
    outcomes_[file] = std::move(outcome);
    while (made_.size() < tables_.size() && is_complete(tables_[made_.size()])) {
      const runner::ReproducedTable& made = made_.emplace_back(make(tables_[made_.size()]));
      text_ += runner::reproduced_text(made) + "\n";
      out_ << runner::reproduced_text(made) << "\n" << std::flush;
      write(text_);
    }
  }

  void summarise() {
    out_ << runner::reproduced_summary(made_) << std::flush;
    write(text_ + runner::reproduced_summary(made_));
  }

 private:
  bool is_complete(const runner::PublishedTable& table) const {
    return std::all_of(table.files.begin(), table.files.end(),
                       [&](const std::string& file) { return outcomes_.contains(file); });
  }

  runner::ReproducedTable make(const runner::PublishedTable& table) const {
    runner::ReproducedTable made{
        .name = table.name, .title = table.title, .source = table.source, .assumes = table.assumes};
    for (const std::string& file : table.files) {
      const Outcome& outcome = outcomes_.at(file);
      made.figures.insert(made.figures.end(), outcome.figures.begin(), outcome.figures.end());
      made.choices.insert(made.choices.end(), outcome.choices.begin(), outcome.choices.end());
      if (!outcome.failure.empty()) made.failures.push_back(file + ": " + outcome.failure);
    }
    return made;
  }

  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_);
    const OpenFolder files(folder_);
    write_whole(files, "tables.md", "# Published tables\n\n" + text);
    write_whole(files, "tables.json", runner::reproduced_json(made_).dump(2) + "\n");
  }

  const std::vector<runner::PublishedTable>& tables_;
  std::filesystem::path folder_;
  std::ostream& out_;
  std::map<std::string, Outcome> outcomes_;  // by file
  std::vector<runner::ReproducedTable> made_;
  std::string text_;
};

/// Simulates the tables of a file of collectives.
Outcome simulate(const std::string& file) {
  try {
    return {.figures = bench::simulate_collectives(bench::read_collectives(file),
                                                   std::filesystem::path(file).stem().string())};
  } catch (const std::exception& error) {
    return {.failure = error_text(error)};
  }
}

/// Asks `advise` the questions of a file.
Outcome choose(const std::string& file, const Process& process) {
  Outcome outcome;
  try {
    const int processes = std::max(1, allowed_cores().value_or(1));
    OutputStream errors(STDERR_FILENO, process.interrupted);
    const runner::Simulate simulate =
        runner::parallel_simulations(rank_start(process, errors), processes);
    for (const advise::PublishedChoice& choice : advise::read_choices(file)) {
      if (process.interrupted()) break;
      errors << choice.question << std::endl;
      for (runner::ReproducedChoice& answer : advise::answers_to(choice, simulate, processes))
        outcome.choices.push_back(std::move(answer));
    }
  } catch (const std::exception& error) {
    outcome.failure = error_text(error);
  }
  return outcome;
}

/// The end of the work on one file.
struct Ended {
  int status = ok;  // wrong_input and was_interrupted end the command
  std::string complaint{};
  Outcome outcome{};
};

/// Makes the comparison of one file. `files` has the files that were compared, by their folders of
/// results.
Ended compare(const ComparisonArguments& arguments, const Process& process,
              std::map<std::string, std::string>& files) {
  Compared compared = make_comparison(arguments, process);
  if (compared.folder.empty())
    return {compared.status, compared.complaint, {.failure = compared.complaint}};
  const auto [other, is_new] = files.emplace(compared.folder, arguments.experiment.file);
  if (!is_new)
    return {wrong_input,
            fmt::format("its results are in {}, as those of {}; give one of the two experiments "
                        "another name",
                        compared.folder, other->second)};
  return {
      compared.status, compared.complaint, {.figures = runner::published_figures(compared.cases)}};
}

/// Recomputes the tables, and prints each next to the published one, with progress on standard
/// error.
int reproduce(const ReproduceArguments& arguments, const Process& process) {
  std::vector<runner::PublishedTable> tables;
  std::vector<Part> parts;
  const auto folder = std::filesystem::path(arguments.results) / "reproduce";
  try {
    check_alone("reproduce", "start it without the launcher", process);
    tables = asked_tables(arguments);
    parts = parts_of(tables);
  } catch (const std::exception& error) {
    return complain(wrong_input, error_text(error));
  }
  OutputStream out(STDOUT_FILENO, process.interrupted);
  Reproduction reproduction(tables, folder, out);
  std::map<std::string, std::string> files;
  int status = ok;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& file = parts[i].file;
    std::cerr << fmt::format("{} ({} of {}): {}", parts[i].table, i + 1, parts.size(),
                             std::filesystem::path(file).filename().string())
              << std::endl;
    Ended ended;
    if (process.interrupted())
      ended = {was_interrupted, "interrupted; go on with the same command and --resume"};
    else if (bench::lists_collectives(file))
      ended.outcome = simulate(file);
    else if (advise::lists_choices(file))
      ended.outcome = choose(file, process);
    else
      ended = compare({.experiment = {file, arguments.settings},
                       .resume = arguments.resume,
                       .results = folder.string()},
                      process, files);
    if (ended.status == ok && process.interrupted())
      ended = {was_interrupted, "interrupted; go on with the same command and --resume"};
    if (ended.complaint.empty()) ended.complaint = ended.outcome.failure;
    if (!ended.complaint.empty()) complain(run_failed, file + ": " + ended.complaint);
    if (ended.status == wrong_input || ended.status == was_interrupted) return ended.status;
    if (!ended.complaint.empty()) status = run_failed;
    reproduction.add(file, std::move(ended.outcome));
  }
  reproduction.summarise();
  return finish(out, status);
}

}  // namespace

Execute reproduce_command(CommandOptions& options) {
  options.summary(
      "recompute published tables: print the published figures, those of simulated "
      "clusters or of this machine, the deviations, and the assumptions of each table");
  options.uses_cores();
  const auto arguments = std::make_shared<ReproduceArguments>();
  options.add("TABLES", arguments->tables,
              "names of tables, as in T3 V6, or all; without a name the tables are listed");
  add_settings(options, arguments->settings);
  add_resume(options, arguments->resume,
             "keep the rows of the results folder, and make only the missing runs");
  options
      .add("--results", arguments->results,
           "write results to DIR/reproduce, with these tables in tables.md and tables.json")
      .type("DIR")
      .shows_default();
  options
      .add("--tables", arguments->index,
           "the index of the tables (TOML): the experiment files and the assumptions of "
           "each")
      .type("FILE")
      .shows_default();
  return [arguments](const Process& process) { return reproduce(*arguments, process); };
}

}  // namespace ringside::tools::cli
