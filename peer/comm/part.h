// The parts of an array, each of which one rank sums up.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ringside::peer {

/// Elements [begin, begin + count).
struct Part {
  std::size_t begin, count;
};

/// The part of an array of `count` elements that `rank` of `size` ranks sums up. Parts begin at
/// multiples of 16 elements (a cache line of fp32), so that two ranks hardly ever write to the same
/// line.
inline Part part_of(std::size_t count, int rank, int size) {
  constexpr std::size_t line = 16;
  const auto p = static_cast<std::size_t>(size);
  const std::size_t chunk = ((count + p - 1) / p + line - 1) / line * line;
  const std::size_t begin = std::min(count, static_cast<std::size_t>(rank) * chunk);
  return {begin, std::min(count - begin, chunk)};
}

}  // namespace ringside::peer
