// Python programs that are part of this program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ringside::tools::cli {

/// Runs the Python program with the text `text`, which also finds modules in those of `folders`
/// that are there; the variables of the environment are `environment` ("NAME=value"). The program
/// shares the standard streams of this process. Blocks until it has ended, and returns its exit
/// status (128 + the signal's number if a signal ended it). Throws Error if python3 is not found.
int run_python(const std::string& text, const std::vector<std::string>& arguments,
               const std::vector<std::filesystem::path>& folders,
               const std::vector<std::string>& environment);

}  // namespace ringside::tools::cli
