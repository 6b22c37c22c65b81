// ringside report
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "experiments/runner/report/report_page.h"
#include "experiments/runner/results/folder_lock.h"
#include "experiments/runner/results/results.h"
#include "experiments/runner/results/saved_results.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/comparison.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

/// The environment with the folders before those of PYTHONPATH.
std::vector<std::string> with_folders(std::vector<std::string> environment,
                                      const std::vector<std::filesystem::path>& folders) {
  const std::string name = "PYTHONPATH=";
  std::string path;
  const auto add = [&](const std::string& one) { path += (path.empty() ? "" : ":") + one; };
  for (const std::filesystem::path& folder : folders)
    if (std::filesystem::exists(folder)) add(folder.string());
  if (path.empty()) return environment;
  for (const std::string& variable : environment)
    if (variable.starts_with(name) && variable.size() > name.size())
      add(variable.substr(name.size()));
  std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name); });
  environment.push_back(name + path);
  return environment;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// Runs the Python program with the text `text`, which also finds modules in those of `folders`
/// that are there; the variables of the environment are `environment` ("NAME=value"). The program
/// shares the standard streams of this process. Blocks until it has ended, and returns its exit
/// status (128 + the signal's number if a signal ended it). Throws Error if python3 is not found.
int run_python(const std::string& text, const std::vector<std::string>& arguments,
               const std::vector<std::filesystem::path>& folders,
               const std::vector<std::string>& environment) {
  std::vector<std::string> words = {"python3", "-c", text};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = with_folders(environment, folders);
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  pid_t process = 0;
  if (const int error = posix_spawnp(&process, argv[0], nullptr, nullptr, argv.data(), envp.data()))
    throw Error("python3 cannot be started: {}; install python3", std::strerror(error));
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct ReportArguments {
  std::vector<std::string> folders;
  std::string output, figures;  // the page; the folder of figures for papers
};

namespace fs = std::filesystem;

struct Reports {
  std::vector<nlohmann::ordered_json> of_folders;
  std::vector<std::string> not_read;  // folders without a record that can be shown, with the cause
};

/// Reads the folder, and prints on standard error the parts that cannot be read. With `beside`, the
/// page will stand in the folder, and the summary there is written anew if all records can be read
/// and no comparison is running.
void add_folder(Reports& reports, const std::string& folder, bool beside) {
  const auto refuse = [&](const std::string& why) {
    reports.not_read.push_back(why);
    complain(run_failed, why);
  };
  try {
    const runner::SavedResults saved = runner::read_results(folder);
    for (const std::string& complaint : saved.complaints) complain(run_failed, complaint);
    if (saved.rows.empty())
      return refuse(fmt::format("{}: no row of this folder can be shown{}", folder,
                                saved.complaints.empty() ? "; no run has ended yet" : ""));
    const auto environment = nlohmann::json::parse(saved.environment, nullptr, false);
    const std::vector<runner::CaseSummary> cases = runner::summarise(saved.rows);
    if (beside && !saved.complaints.empty()) {
      complain(run_failed, folder + ": its summary stays as it is");
    } else if (beside && !runner::is_held(folder)) {
      runner::ResultsFolder results(folder);
      write_summary(results, saved.name, cases);
    }
    reports.of_folders.push_back(runner::report_of(
        {folder, saved.rows, cases, environment.is_discarded() ? nlohmann::json() : environment,
         saved.complaints}));
  } catch (const Error& error) {
    refuse(error.what());
  }
}

fs::path page_file(const ReportArguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  return arguments.folders.size() == 1 ? fs::path(arguments.folders[0]) / "report.html"
                                       : fs::path("report.html");
}

/// Runs scripts/report-figures, which is a part of the program.
int draw_figures(const runner::PageParts& parts, const fs::path& page, const std::string& folder,
                 const Process& process) {
  const int status = run_python(std::string(parts.figures_program), {page.string(), folder},
                                {fs::canonical(process.program).parent_path() / "vl-convert"},
                                process.environment);
  return status == 0 ? ok : complain(run_failed, "--figures: not all figures were drawn");
}

int write_report_page(const ReportArguments& arguments, const Process& process) {
  const runner::PageParts parts = runner::built_in_page();
  if (!runner::can_draw(parts)) return complain(run_failed, runner::how_to_get_reports());
  try {
    const fs::path page = page_file(arguments);
    Reports reports;
    for (const std::string& folder : arguments.folders)
      add_folder(reports, folder, page == fs::path(folder) / "report.html");
    if (reports.of_folders.empty()) return complain(wrong_input, "no report: nothing to show");
    write_whole(
        check_output("--output", page.string()).path,
        runner::report_page(parts, reports.of_folders, process.built_commit, reports.not_read));
    std::cout << page.string() << std::endl;
    const int drawn =
        arguments.figures.empty() ? ok : draw_figures(parts, page, arguments.figures, process);
    return reports.not_read.empty() ? drawn : run_failed;
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

}  // namespace

Execute report_command(CommandOptions& options) {
  options.summary(
      "write report.html, one page with figures and tables that opens offline, of results that are "
      "there already; in the folder of the results, also summary.json and summary.md from its "
      "rows");
  const auto arguments = std::make_shared<ReportArguments>();
  options
      .add("RESULTS", arguments->folders,
           "folders of comparisons, as results/quickstart; several come onto one page")
      .required();
  options
      .add("--output", arguments->output,
           "the page; default: report.html in the folder of the results, or here if there are "
           "several")
      .type("FILE");
  options
      .add("--figures", arguments->figures,
           "also draw every figure for papers, as DIR/NAME.svg and DIR/NAME.png (needs python3 "
           "with vl-convert, which scripts/setup fetches)")
      .type("DIR");
  return [arguments](const Process& process) { return write_report_page(*arguments, process); };
}

}  // namespace ringside::tools::cli
