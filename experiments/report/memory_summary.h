// Peaks of memory of all repeats of a case.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// Least and most over the repeats, bytes. Peaks of ranks that wait for each other depend on what
/// comes first, so they may differ.
struct BytesRange {
  std::int64_t low = 0, high = 0;
};

/// The busiest rank of one role.
struct RoleMemory {
  std::string role{};  // "worker", "server", "worker+server"
  int ranks = 0;       // that have the role
  BytesRange peak{};   // of the role's busiest rank in each repeat
  /// Of the rank with the largest peak of all repeats, when it had that.
  int rank = 0;
  MemoryUse at_peak{};
  std::int64_t resident = 0;  // 0 where it was simulated
  std::optional<DeviceMemory> device{};
};

struct MemorySummary {
  std::vector<RoleMemory> roles;  // workers first
  /// The sum of the peaks of all ranks. They need not come at one moment: so much memory is enough.
  BytesRange job;
  /// The largest peak of any rank.
  std::int64_t peak() const;
};

/// Of repeats that finished.
MemorySummary summarise_memory(const std::vector<const Row*>& repeats);

nlohmann::ordered_json to_json(const MemorySummary& memory);

}  // namespace ringside
