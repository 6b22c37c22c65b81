// Limits of this process's control groups: those of a container, a Slurm job or a systemd unit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ringside {

/// Returns all text of a file; empty if it cannot be read.
using ReadFile = std::function<std::string(const std::string& file)>;
/// Reads files of this system.
std::string read_system_file(const std::string& file);

/// The control groups of this process, of version 1 or 2, whichever the system has for processor
/// time and for memory. Groups are nested: a limit is the smallest of a group and of all groups
/// around it that this process can see. Figures are read when they are asked for.
class ControlGroup {
 public:
  /// `read` gives /proc/self/cgroup, /proc/self/mountinfo and the files of the groups.
  explicit ControlGroup(ReadFile read = read_system_file);

  /// The processor time that the group may use in a second, in seconds; none without a quota.
  std::optional<double> cores() const;
  /// The whole cores of `all` for which the group has time, at least one.
  int cores_of(int all) const;
  /// Bytes of memory that all processes of the group may have together; none without a limit.
  std::optional<std::int64_t> memory() const;
  /// Seconds for which quotas have held up the group so far.
  double throttled_s() const;
  /// The number of the group's processes that the system has killed so far because memory ran out;
  /// none if it does not count them.
  std::optional<std::int64_t> out_of_memory_kills() const;

 private:
  /// The folders of the group and of those around it, the innermost first.
  struct Folders {
    bool second_version = false;
    std::vector<std::string> paths{};
  };
  Folders folders_of(const std::string& controller) const;

  ReadFile read_;
  Folders processor_, memory_;
};

/// Finds out whether the system has killed a process of this process's control group, from the
/// watch's construction on, because memory ran out.
class OutOfMemoryWatch {
 public:
  explicit OutOfMemoryWatch(ControlGroup group = ControlGroup());
  /// The explanation for a process that was killed meanwhile, with the group's limit, as "; its
  /// control group ran out of memory ..."; empty if none was killed for that.
  std::string explanation() const;

 private:
  ControlGroup group_;
  std::optional<std::int64_t> kills_before_;
};

}  // namespace ringside
