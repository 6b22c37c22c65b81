// The memory of each rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/observe/run_record.h"

namespace ringside::runner {

/// The memory of one rank at its peak, in bytes: of several repeats, at the largest peak.
struct RankMemory {
  int rank = 0;
  std::string role{};  // "worker", "server", "worker+server"
  std::string host{};
  std::int64_t peak = 0;
  MemoryUse at_peak{};
  std::optional<HostMemory> host_memory{};  // the offloaded state of the rank
};

Fields fields_of(RankMemory& memory);

struct RanksMemory {
  std::vector<RankMemory> ranks{};
  std::int64_t left_out = 0;
};

/// Up to `most_shown_ranks` ranks are all kept. Of more ranks, the first `first_ranks` and the
/// busiest of each role (`busiest`) are kept; the others are only counted.
inline constexpr std::size_t most_shown_ranks = 16;
inline constexpr int first_ranks = 8;

/// `repeats` have finished.
RanksMemory memory_of_ranks(const std::vector<const RunRecord*>& repeats,
                            const std::vector<int>& busiest);

}  // namespace ringside::runner
