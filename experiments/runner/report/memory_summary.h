// Peaks of memory over all repeats of a case.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/run_record.h"
#include "experiments/runner/report/rank_memory.h"

namespace ringside::runner {

/// The smallest and the largest value over the repeats, in bytes. The peaks of ranks that wait for
/// each other may differ between repeats, since they depend on what arrives first.
struct BytesRange {
  std::int64_t low = 0, high = 0;
};

/// The memory of one role's busiest rank, the rank with the largest peak.
struct RoleMemory {
  std::string role{};  // "worker", "server", "worker+server"
  int ranks = 0;       // number of ranks with this role
  BytesRange peak{};   // of the role's busiest rank in each repeat
  /// The rank with the largest peak of all repeats, and its memory by kind at that peak.
  int rank = 0;
  MemoryUse at_peak{};
  std::int64_t resident = 0;  // bytes; 0 for simulated ranks
  std::optional<DeviceMemory> device{};
  std::optional<HostMemory> host{};  // the offloaded state of this rank
};

struct MemorySummary {
  std::vector<RoleMemory> roles;  // workers first
  /// The sum of the peaks of all ranks. The peaks need not come at the same moment, so the job
  /// never needs more memory than this, but may need less.
  BytesRange job;
  std::vector<RankMemory> ranks;
  std::int64_t ranks_left_out = 0;  // the number of ranks that `ranks` lacks
  /// The largest peak of any rank, in bytes.
  std::int64_t peak() const;
  /// The memory of the busiest worker at its peak, by kind.
  MemoryUse of_worker() const;
};

/// Summarises repeats, which must have finished.
MemorySummary summarise_memory(const std::vector<const RunRecord*>& repeats);

nlohmann::ordered_json to_json(const MemorySummary& memory);

}  // namespace ringside::runner
