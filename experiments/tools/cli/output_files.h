// The files that a command writes, with a check that they are not files that it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside::tools::cli {

/// A file that the command line names for output.
struct OutputFile {
  std::string option;          // "--save"
  std::filesystem::path path;  // absolute; empty if nothing is to be written
};

/// Throws Error if the file cannot be written or is a link, so that a command fails before its work
/// and not after. Leaves the file as it is. `path` is the path as the user gave it; empty if no
/// file is named.
OutputFile check_output(const std::string& option, const std::string& path);

/// Throws Error if an output is also a file that the run reads, or another output; the error names
/// both. The run reads the experiment file and the files of its data, initial weights and cluster.
/// Two names of one file count as one file, and so does a link to an input.
void check_outputs_apart(const std::vector<OutputFile>& outputs,
                         const std::filesystem::path& experiment, const RunPlan& plan);

}  // namespace ringside::tools::cli
