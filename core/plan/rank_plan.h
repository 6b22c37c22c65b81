// RankPlan: the part of one rank in a run, and where it lives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// What one rank does. A worker computes, a server keeps a part of the parameters; one rank may do
/// both. The number is -1 for a role that the rank does not have.
struct RankPlan {
  int rank = 0;
  int worker = -1;
  int server = -1;
  std::string device{};  // device kind, if it differs from the kind of the run
  int ordinal = -1;      // index among the devices of that kind that its process sees; -1: none
  /// How the environment of the rank's process differs from the launcher's: "NAME=VALUE" sets a
  /// variable, "NAME" removes it. The launcher's GLIBC_TUNABLES are added to those given here.
  std::vector<std::string> environment{};
  std::string role() const;  // "worker", "server", "worker+server"
  bool operator==(const RankPlan&) const = default;
};

Fields fields_of(RankPlan& rank);

/// Where a rank of a run on several hosts lives.
struct RankHome {
  std::string host{};     // how the host is called, to distinguish it from others
  std::string address{};  // the IPv4 address at which other hosts reach the rank
  int agent = 0;          // the process of the job that starts the rank
  /// Identity of the rank's device on its host, for devices that have numbers: each process of a
  /// host may see a different set of devices, numbered from 0.
  std::string device{};
  bool operator==(const RankHome&) const = default;
};

Fields fields_of(RankHome& home);

/// A file in memory that a process of this host has open.
struct HostMemoryFile {
  std::int64_t process = 0, file = -1;
  std::int64_t identity = 0;  // shm::File::identity()
  bool operator==(const HostMemoryFile&) const = default;
};

Fields fields_of(HostMemoryFile& file);

}  // namespace ringside
