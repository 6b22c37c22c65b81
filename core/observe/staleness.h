// Staleness: how old the parameters are from which gradients were computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// The staleness of gradients, over the measured steps. The staleness of a gradient is the number
/// of updates between the parameters from which it was computed and those to which it was applied,
/// and the time between the two. A server counts every range of parameters by itself.
struct Staleness {
  /// The number of gradients with staleness 0, 1, ... updates; the last number counts all larger
  /// ones.
  std::vector<std::int64_t> updates;
  /// The same by time: entry i counts gradients of about time_of_bin(i) seconds.
  std::vector<std::int64_t> times;
  /// Gradients that arrived too late and were not applied (backup workers).
  std::int64_t dropped = 0;

  void add(std::int64_t stale_updates, double seconds);
  /// Adds the counts of another server.
  void add(const Staleness& other);
  /// Bins grow by 2%, from a microsecond on.
  static double time_of_bin(std::size_t bin);
};

Fields fields_of(Staleness& staleness);

}  // namespace ringside
