// Ranks that work together within a collective, and the chunks of an array that they share.
#pragma once

#include <cstdint>
#include <vector>

#include "peer/comm/algorithms/exchange.h"

namespace ringside::peer {

/// Some ranks of a group in the order in which an algorithm uses them. `place` is this rank's index
/// among them.
struct Team {
  std::vector<int> ranks;
  int place = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  /// The rank that stands `steps` places after this one, in a circle; `steps` may be negative.
  int after(int steps) const { return ranks[static_cast<std::size_t>(wrapped(place + steps))]; }
  /// The place in the circle that any integer stands for: `any` modulo size().
  int wrapped(int any) const { return (any % size() + size()) % size(); }
};

/// All ranks of the exchange.
Team everyone(const Exchange& exchange);

/// The part of an array that belongs to one member of a team. It may consist of several pieces.
using Chunk = std::vector<Elements>;

/// Divides elements into one chunk for each of `members`, as part_of() does.
std::vector<Chunk> divide(const Elements& whole, int members);
/// Divides an array of `count` elements into equal chunks.
std::vector<Chunk> equal_parts(Array array, std::int64_t count, int members);

}  // namespace ringside::peer
