// Schedule: all messages of a collective, without the values.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "peer/comm/algorithms/algorithms.h"

namespace ringside::peer {

/// A message of `count` elements from one rank to another.
struct Transfer {
  int from = 0, to = 0;
  std::int64_t count = 0;
};

/// Messages that move at the same time. A round follows the one before it.
struct Round {
  std::vector<Transfer> transfers;  // in the order of (from, to)
  /// The number of consecutive rounds with the same senders and receivers; `count` of the transfers
  /// then holds for all of them together.
  std::int64_t repeats = 1;
};

/// The latency of a round in seconds, without the time of its bytes: that of its slowest pair of
/// ranks, times Round::repeats. `of_message` returns the latency of one message; messages from one
/// rank to the same other rank add up.
double latency_of(const Round& round, const std::function<double(int from, int to)>& of_message);

/// Runs the programs of all ranks without moving anything, as if all messages took equally long.
/// `count` is the number of elements of the whole array, which is a multiple of the number of ranks
/// unless the collective is an all_reduce or a broadcast. Throws Error if the ranks would wait for
/// each other for ever.
std::vector<Round> schedule_of(const AlgorithmRow& row, const Collective& call, std::int64_t count,
                               const std::vector<int>& hosts);

}  // namespace ringside::peer
