// The graph of each rank of a run: operations, and the earlier operations that each waits for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/runner/results/read_trace.h"

namespace ringside::tools::chakra {

/// One operation of a rank. Times are in microseconds.
struct Node {
  std::int64_t id = 0;  // counted from 1 in the order in which a rank begins its operations
  std::string name;
  std::vector<std::int64_t> after;  // nodes that have to end first; their ids are smaller
  std::int64_t start_us = 0, duration_us = 0;
  /// Only for collectives: "all_reduce", the bytes of the whole array, and the group, as an index
  /// into Run::groups.
  std::string operation{};
  std::int64_t bytes = 0;
  int group = 0;

  bool is_collective() const { return !operation.empty(); }
};

/// The ranks of a group of ranks in ascending order, and the name that the run gave it.
struct Group {
  std::string name;
  std::vector<int> ranks;
};

struct Run {
  std::vector<std::vector<Node>> ranks;  // by rank
  std::vector<Group> groups;
};

/// Makes graphs of the last steps of a run from its trace. The computations of a rank follow each
/// other in order. A collective follows the last computation before it began, and the previous
/// collective of its group. A computation after a wait for a collective follows that collective.
/// Fractions of a microsecond are carried to the next computation, so that the sum of a rank's
/// times is correct. Throws Error for a run whose ranks also send each other messages, and for a
/// run without a trace of some ranks.
Run graphs_of(const runner::TracedSpans& trace);

}  // namespace ringside::tools::chakra
