// A barrier of ranks on one host, for timing.
#pragma once

#include <memory>

#include "core/comm/store.h"
#include "core/shm/mapping.h"

namespace ringside::tools::bench {

/// Each of the `ranks` ranks has an object of its own.
class SpinBarrier {
 public:
  /// Blocks until rank 0 has made its object: the ranks find each other through the store. Throws
  /// Error after `timeout_s`.
  SpinBarrier(Store& store, int rank, int ranks, double timeout_s);
  /// Returns when all ranks have arrived; it spins, because a wake-up would add to the next
  /// measured time. Throws Error if a rank is missing after `timeout_s`.
  void meet();

 private:
  shm::File file_;
  std::unique_ptr<shm::Mapping> memory_;  // the number of arrivals so far
  int ranks_, round_ = 0;
  double timeout_s_;
};

}  // namespace ringside::tools::bench
