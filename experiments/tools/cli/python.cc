#include "experiments/tools/cli/python.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

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

}  // namespace

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

}  // namespace ringside::tools::cli
