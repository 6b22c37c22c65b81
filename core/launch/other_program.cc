#include "core/launch/other_program.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "core/base/error.h"
#include "core/base/module.h"

namespace ringside {
namespace {

/// The value of a variable; empty if it is not set.
std::string value_of(const std::string& name, const std::vector<std::string>& environment) {
  for (const std::string& variable : environment)
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  return {};
}

/// A file by which other processes start our program while this process lives. Where this process
/// is itself that program, it is the very file that this process runs, even if a new build has
/// taken its name since.
std::string ours(const std::string& file) {
  return file == "/proc/self/exe" ? fmt::format("/proc/{}/exe", getpid()) : file;
}

}  // namespace

std::string file_of_command(const std::string& command,
                            const std::vector<std::string>& environment) {
  const bool is_path = command.find('/') != std::string::npos;
  if (is_path && access(command.c_str(), X_OK) == 0) return command;
  std::istringstream folders(is_path ? "" : value_of("PATH", environment));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder) / command;
    if (access(file.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(file)) return file;
  }
  return {};
}

std::vector<std::string> words_of(const RunPlan& plan, const RankProgram& program,
                                  const std::vector<std::string>& environment) {
  if (!plan.program) {
    std::vector<std::string> words = {program.file};
    words.insert(words.end(), program.arguments.begin(), program.arguments.end());
    return words;
  }
  if (!has_module(plan.program->script))
    throw Error("{} is missing in the folder of ringside's program; build ringside again",
                plan.program->script);
  const std::string& command = plan.program->command;
  const std::string file = file_of_command(command, environment);
  if (file.empty())
    throw Error(
        "'{}', which runs the ranks of this scheme, {}", command,
        command.find('/') != std::string::npos ? "is no program" : "is in no folder of PATH");
  return {file, path_of_module(plan.program->script), ours(program.file)};
}

}  // namespace ringside
