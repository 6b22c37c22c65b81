#include "core/base/control_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace ringside {
namespace {

/// Version 1 writes the largest number of pages for "no limit".
constexpr double no_limit = 1e18;

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, separator);) out.push_back(part);
  return out;
}

bool contains(const std::string& list, const std::string& word) {
  const auto words = parts_of(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A hierarchy of groups as it is mounted: the group whose folder is `point`.
struct Mount {
  std::string root, point;
};

/// mountinfo writes a blank in a path as \040 (proc(5)).
std::string unescaped(const std::string& path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    unsigned char byte = 0;
    if (path[i] == '\\' && path.size() - i > 3 &&
        std::from_chars(&path[i + 1], &path[i + 1] + 3, byte, 8).ptr == &path[i + 1] + 3) {
      out += static_cast<char>(byte);
      i += 3;
    } else {
      out += path[i];
    }
  }
  return out;
}

/// The first mount of the version 2 hierarchy, or of the version 1 hierarchy with this controller.
std::optional<Mount> mount_of(const std::string& mounts, const std::string& controller,
                              bool second_version) {
  for (const std::string& line : parts_of(mounts, '\n')) {
    const auto words = parts_of(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const std::string &kind = dash[1], &options = dash[3];
    if (second_version ? kind == "cgroup2" : kind == "cgroup" && contains(options, controller))
      return Mount{unescaped(words[3]), unescaped(words[4])};
  }
  return {};
}

/// The group's path in a hierarchy, by /proc/self/cgroup; none if the process is in none of its
/// groups.
std::optional<std::string> path_in(const std::string& groups, const std::string& controller,
                                   bool second_version) {
  for (const std::string& line : parts_of(groups, '\n')) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (second_version ? line.starts_with("0::") : contains(controllers, controller))
      return line.substr(second + 1);
  }
  return {};
}

/// The folders from the group's own up to the mount's. A path that is not below what is mounted is
/// one of another namespace (a container's): then the mount is the container's own group.
std::vector<std::string> folders_in(const Mount& mount, const std::string& path) {
  const std::string root = mount.root == "/" ? "" : mount.root;
  std::string below = path.starts_with(root + "/") ? path.substr(root.size()) : "";
  if (below.find("/..") != std::string::npos) below.clear();
  std::vector<std::string> out;
  for (; below.size() > 1; below.resize(below.rfind('/'))) out.push_back(mount.point + below);
  out.push_back(mount.point);
  return out;
}

std::optional<double> number_in(const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} ? std::optional(out) : std::nullopt;
}

/// The number after `key` in a text of lines "KEY NUMBER".
std::optional<double> number_of(const std::string& text, const std::string& key) {
  for (const std::string& line : parts_of(text, '\n'))
    if (line.starts_with(key + " ")) return number_in(line.substr(key.size() + 1));
  return {};
}

/// The smallest figure of the folders that have one.
template <class Figure>
std::optional<double> smallest(const std::vector<std::string>& folders, const Figure& figure) {
  std::optional<double> out;
  for (const std::string& folder : folders)
    if (const std::optional<double> one = figure(folder)) out = std::min(out.value_or(*one), *one);
  return out;
}

}  // namespace

std::string read_system_file(const std::string& file) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

ControlGroup::ControlGroup(ReadFile read)
    : read_(std::move(read)), processor_(folders_of("cpu")), memory_(folders_of("memory")) {}

ControlGroup::Folders ControlGroup::folders_of(const std::string& controller) const {
  const std::string groups = read_("/proc/self/cgroup"), mounts = read_("/proc/self/mountinfo");
  // Where both versions are mounted, a controller belongs to the first if that has it.
  for (const bool second_version : {false, true}) {
    const auto mount = mount_of(mounts, controller, second_version);
    const auto path = path_in(groups, controller, second_version);
    if (mount && path) return {second_version, folders_in(*mount, *path)};
  }
  return {};
}

std::optional<double> ControlGroup::cores() const {
  return smallest(processor_.paths, [&](const std::string& folder) -> std::optional<double> {
    std::string quota = read_(folder + "/cpu.cfs_quota_us"),
                period = read_(folder + "/cpu.cfs_period_us");
    if (processor_.second_version) {
      const auto words = parts_of(read_(folder + "/cpu.max"), ' ');
      if (words.size() < 2) return {};
      quota = words[0];
      period = words[1];
    }
    const auto most = number_in(quota), of = number_in(period);  // "max" and -1: no quota
    if (!most || !of || *most <= 0 || *of <= 0) return {};
    return *most / *of;
  });
}

int ControlGroup::cores_of(int all) const {
  const double quota = cores().value_or(all);
  return std::max(1, static_cast<int>(std::min<double>(all, quota)));
}

std::optional<std::int64_t> ControlGroup::memory() const {
  const auto file = memory_.second_version ? "/memory.max" : "/memory.limit_in_bytes";
  const auto bytes = smallest(memory_.paths, [&](const std::string& folder) {
    const auto limit = number_in(read_(folder + file));  // "max": no limit
    return limit && *limit < no_limit ? limit : std::nullopt;
  });
  return bytes ? std::optional(static_cast<std::int64_t>(*bytes)) : std::nullopt;
}

double ControlGroup::throttled_s() const {
  double out = 0;
  for (const std::string& folder : processor_.paths) {
    const std::string text = read_(folder + "/cpu.stat");
    const auto us = number_of(text, "throttled_usec"), ns = number_of(text, "throttled_time");
    out = std::max(out, us ? *us / 1e6 : ns.value_or(0) / 1e9);
  }
  return out;
}

std::optional<std::int64_t> ControlGroup::out_of_memory_kills() const {
  if (memory_.paths.empty()) return {};
  const auto file = memory_.second_version ? "/memory.events" : "/memory.oom_control";
  const auto kills = number_of(read_(memory_.paths.front() + file), "oom_kill");
  return kills ? std::optional(static_cast<std::int64_t>(*kills)) : std::nullopt;
}

OutOfMemoryWatch::OutOfMemoryWatch(ControlGroup group)
    : group_(std::move(group)), kills_before_(group_.out_of_memory_kills()) {}

std::string OutOfMemoryWatch::explanation() const {
  const auto kills = group_.out_of_memory_kills();
  if (!kills || !kills_before_ || *kills <= *kills_before_) return {};
  const auto limit = group_.memory();
  return fmt::format(
      "; its control group ran out of memory{}: use a smaller model or batch, or fewer ranks, or "
      "raise the limit",
      limit ? fmt::format(", which is limited to {:.0f} MB", 1e-6 * static_cast<double>(*limit))
            : "");
}

}  // namespace ringside
