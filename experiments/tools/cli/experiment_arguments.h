// Options of commands that make runs of experiment files.
#pragma once

#include <string>
#include <vector>

#include "experiments/tools/cli/cli_options.h"

namespace ringside::tools::cli {

/// An experiment file, and settings that override its keys.
struct ExperimentArguments {
  std::string file;
  std::vector<std::string> settings;
};

/// The parts of an existing results folder to keep.
struct ResumeArguments {
  bool resume = false;
  bool mixed = false;  // keep rows of another program or machine
};

/// Declares FILE and --set.
void add_experiment(CommandOptions& options, ExperimentArguments& experiment);
/// Declares --set.
void add_settings(CommandOptions& options, std::vector<std::string>& settings);
/// Declares --resume, with this text, and --mixed.
void add_resume(CommandOptions& options, ResumeArguments& resume, const std::string& text);
/// Declares --results: the folder to which results are written.
void add_results(CommandOptions& options, std::string& results);

}  // namespace ringside::tools::cli
