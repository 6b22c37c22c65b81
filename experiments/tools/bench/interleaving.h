// The interleaving of contenders, and the statistics of their times.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tools/bench/rank_group.h"

namespace ringside::tools::bench {

/// Times of all calls in microseconds, bandwidths in GB/s (1e9 bytes) of the median.
struct CallTimes {
  double p50 = 0, p95 = 0, p99 = 0, min = 0, avg = 0, max = 0;
  double alg_bw = 0, bus_bw = 0;
  std::optional<std::int64_t> wrong{};  // elements; none if a simulation moves no values
};

/// The times of calls that took `us` microseconds (one at least) for `bytes` bytes.
CallTimes call_times(std::vector<double> us, std::int64_t bytes, double bus_factor);
/// With the keys of nccl-tests 2.19 (`-J`).
nlohmann::ordered_json to_json(const CallTimes& times);

/// The number of turns and calls of an operation. A contender has the processor for one turn of a
/// few calls, then the others have theirs. The first calls of a turn, on ranks that have just woken
/// up, do not count.
struct Interleaving {
  int warm_up, rounds, calls, first;
};
Interleaving interleaving_for(std::int64_t bytes);

/// A contender, with its measured times.
struct Contender {
  RankGroup* group;  // whose arrays are prepared
  std::string way;
  bool checked = true;  // whether its ranks can count wrong elements
  std::vector<double> us{};
  std::int64_t wrong = 0;
};

/// Blocks until all turns are over; throws Error as RankGroup does.
void interleave(const std::vector<Contender*>& contenders, const Interleaving& turns,
                RankGroup::From from = RankGroup::From::last_begin);

}  // namespace ringside::tools::bench
