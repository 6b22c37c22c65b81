// StragglerWatch: which worker computes slower than the others.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>

namespace ringside {

/// Compares how long workers compute in a step, without what they wait for others. A worker is slow
/// whose median over the last `steps` steps is `factor` times the median of the other workers'.
/// Steps of less than a millisecond tell more of the system than of a worker, and name nobody. For
/// one thread.
class StragglerWatch {
 public:
  static constexpr std::size_t steps = 10;
  static constexpr double factor = 1.5, least_s = 1e-3;

  /// A worker's rank that is slow, and how many times as long as the others it computes.
  struct Slow {
    int rank = 0;
    double times = 1;
  };
  /// Notes a step of a rank. Returns the rank if it is slow and was not named before.
  std::optional<Slow> note(int rank, double compute_s);

 private:
  std::map<int, std::deque<double>> last_;  // by rank, the newest at the end
  std::set<int> named_;
};

}  // namespace ringside
