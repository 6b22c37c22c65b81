#include "core/base/processor.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "core/base/control_group.h"

namespace ringside {
namespace {

std::int64_t memory_of_machine() {
  return std::int64_t{std::max(0L, sysconf(_SC_PHYS_PAGES))} * std::max(0L, sysconf(_SC_PAGESIZE));
}

/// The limit of the control group, if it allows less than the machine has.
std::optional<std::int64_t> limited_by_group() {
  const auto limit = ControlGroup().memory();
  const std::int64_t machine = memory_of_machine();
  return limit && (machine == 0 || *limit < machine) ? limit : std::nullopt;
}

}  // namespace

std::vector<std::int64_t> allowed_core_numbers() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::int64_t> out;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return out;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) out.push_back(core);
  return out;
}

std::optional<int> allowed_cores() {
  const auto count = static_cast<int>(allowed_core_numbers().size());
  return count > 0 ? std::optional(ControlGroup().cores_of(count)) : std::nullopt;
}

std::int64_t allowed_memory() { return limited_by_group().value_or(memory_of_machine()); }

std::string owner_of_allowed_memory() {
  return limited_by_group() ? "the control group of this process" : "this machine";
}

std::string processor_name() {
  return fmt::format("{}, {} cores",
                     value_in("/proc/cpuinfo", "model name", ':').value_or("unknown processor"),
                     sysconf(_SC_NPROCESSORS_ONLN));
}

std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key,
                                    char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(separator);
    if (line.rfind(key, 0) != 0 || at == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t\"", at + 1);
    const auto end = line.find_last_not_of(" \t\"");
    if (begin == std::string::npos) return "";
    return line.substr(begin, end + 1 - begin);
  }
  return {};
}

}  // namespace ringside
