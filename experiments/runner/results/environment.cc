#include "experiments/runner/results/environment.h"

#include <link.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/processor.h"
#include "core/base/utf8.h"
#include "core/device/cuda/cuda.h"
#include "experiments/runner/results/kept_variables.h"
#include "peer/comm/nccl/communicator.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

ordered_json memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  if (pages < 0 || size < 0) return nullptr;
  return static_cast<std::int64_t>(pages) * size;
}

/// The names of the files of all loaded libraries, with links resolved: "libzmq.so.5.2.4".
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        std::error_code error;
        const fs::path file = fs::canonical(info->dlpi_name, error);
        if (!error)
          static_cast<std::vector<std::string>*>(out)->push_back(file.filename().string());
        return 0;
      },
      &names);
  std::sort(names.begin(), names.end());
  return names;
}

std::string compiler() {
  const std::string version = __VERSION__;  // clang's version begins with its name, g++'s does not
  return version.find("lang") == std::string::npos ? "g++ " + version : version;
}

/// The hash of the file; null if the file cannot be read.
ordered_json hash_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Hash hash;
  for (std::vector<char> piece(1 << 20); in;) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.update(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(in.gcount()))));
  }
  return in.eof() ? ordered_json(hash.digest()) : ordered_json();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string git_commit(const fs::path& folder) {
  for (fs::path here = fs::absolute(folder); here != here.parent_path();
       here = here.parent_path()) {
    fs::path git = here / ".git";
    if (!fs::exists(git)) continue;
    const std::string pointer = "gitdir: ";  // of a worktree, whose .git is a file
    if (const std::string line = fs::is_directory(git) ? "" : first_line(git);
        line.rfind(pointer, 0) == 0)
      git = here / line.substr(pointer.size());
    const std::string head = first_line(git / "HEAD");
    if (head.rfind("ref: ", 0) != 0) return head;
    const std::string branch = head.substr(5);
    if (const std::string common = first_line(git / "commondir"); !common.empty()) git /= common;
    if (fs::exists(git / branch)) return first_line(git / branch);
    std::ifstream packed(git / "packed-refs");
    for (std::string line; std::getline(packed, line);)
      if (line.size() > branch.size() + 1 && line.substr(line.find(' ') + 1) == branch)
        return line.substr(0, line.find(' '));
    return {};
  }
  return {};
}

void check_same_environment(const nlohmann::json& before, const nlohmann::json& now) {
  const std::string commit = now.value("built_commit", "unknown");
  std::vector<const char*> keys = {"built_commit", "cpu", "cores", "gpu"};
  if (commit == "unknown" || commit.ends_with("-dirty")) keys.push_back("program");
  for (const char* key : keys) {
    const nlohmann::json old_value = before.value(key, nlohmann::json());
    const nlohmann::json new_value = now.value(key, nlohmann::json());
    if (old_value != new_value)
      throw Error(
          "--resume: the earlier rows were made with {} = {}, but now it is {}; leave --resume out "
          "to start anew, or add --mixed for a table of both",
          key, old_value.dump(), new_value.dump());
  }
}

ordered_json describe_environment(const std::vector<std::string>& variables, const Program& program,
                                  bool gpus) {
  utsname system{};
  uname(&system);
  const std::string commit = git_commit(program.file.parent_path());
  const std::optional<int> cores = allowed_cores();
  const cuda::Machine machine = gpus ? cuda::look_at_machine() : cuda::Machine{};
  const std::string nccl = gpus ? peer::look_for_nccl().version : "";
  ordered_json names = gpus ? ordered_json::array() : ordered_json();
  for (const cuda::Gpu& gpu : machine.gpus) names.push_back(gpu.name);
  const auto value = [](const fs::path& file, std::string_view key, char separator) {
    const auto found = value_in(file, key, separator);
    return found ? ordered_json(*found) : ordered_json();
  };
  const auto version = [](const std::string& text) {
    return text.empty() ? ordered_json() : ordered_json(text);
  };
  return {{"time", utc_now()},
          {"host", system.nodename},
          {"cpu", value("/proc/cpuinfo", "model name", ':')},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"cores_allowed", cores ? ordered_json(*cores) : ordered_json()},
          {"memory_bytes", memory_bytes()},
          {"memory_allowed", allowed_memory()},
          {"gpu", names},
          {"driver", version(machine.driver)},
          {"cuda",
           {{"runtime", version(machine.runtime)},
            {"cublaslt", version(machine.cublaslt)},
            {"cudnn", version(machine.cudnn)},
            {"nccl", version(nccl)}}},
          {"os", value("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", system.release},
          {"compiler", compiler()},
          {"libraries", loaded_libraries()},
          {"built_commit", program.built_commit},
          {"program", hash_of(program.file)},
          {"git_commit", commit.empty() ? ordered_json() : ordered_json(commit)},
          {"variables", kept_variables(variables)}};
}

}  // namespace ringside::runner
