// The files that a command writes, beside those that it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside {

/// What a command names on its command line to be written.
struct OutputFile {
  std::string option;          // "--save"
  std::filesystem::path path;  // absolute, links followed; empty: nothing is written
};

/// Fails before the work, not after it, where the file cannot be written, and leaves it as it is.
/// `path` as the user gave it; empty for none.
OutputFile check_output(const std::string& option, const std::string& path);

/// Throws Error that names both where an output is a file that the run reads (the experiment file,
/// and what its data, initial weights and cluster are made of) or another output. Links are
/// followed, and two names of one file are one file.
void check_outputs_apart(const std::vector<OutputFile>& outputs,
                         const std::filesystem::path& experiment, const RunPlan& plan);

}  // namespace ringside
