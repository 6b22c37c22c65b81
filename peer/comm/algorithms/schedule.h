// Schedule: all messages of a collective, without its values.
#pragma once

#include <cstdint>
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
  std::vector<Transfer> transfers;
  /// How many like rounds, with the same senders and receivers, follow each other; `count` of the
  /// transfers then holds for all of them together.
  std::int64_t repeats = 1;
};

/// Runs the programs of all ranks without moving anything, as if all messages took equally long.
/// `count` is the number of elements of the whole array, which is a multiple of the number of ranks
/// unless the collective is an all_reduce or a broadcast. Throws Error if the ranks would wait for
/// each other for ever.
std::vector<Round> schedule_of(const AlgorithmRow& row, const Call& call, std::int64_t count,
                               const std::vector<int>& hosts);

}  // namespace ringside::peer
