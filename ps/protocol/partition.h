// Which server keeps which part of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/model.h"

namespace ringside::ps {

/// Elements [begin, begin + count) of the model's flat parameters. A chunk lies in one unit.
struct Chunk {
  std::size_t unit = 0;
  std::int64_t begin = 0, count = 0;
  int server = 0;

  bool operator==(const Chunk&) const = default;
};

/// The largest size of a chunk in fp32, because frames of this size travel fastest. With another
/// dtype a chunk has the same elements, but another number of bytes.
inline constexpr std::int64_t max_chunk_bytes = 1 << 20;

/// Cuts every unit into as few chunks as possible, each of at most `max_bytes` in fp32. The chunks
/// of a unit are nearly equal and begin at multiples of 16 elements within the unit. Then gives
/// each chunk, from the largest to the smallest, to the server that holds the fewest elements
/// (longest processing time first, Graham 1969; the largest load is at most 4/3 of the best
/// possible). Returns the chunks in the order of `begin`, the same on every rank. For n chunks
/// and s servers the time is O(n log n + n * s).
std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts, int servers,
                             std::int64_t max_bytes = max_chunk_bytes);
std::vector<Chunk> partition(const Model& model, int servers,
                             std::int64_t max_bytes = max_chunk_bytes);

}  // namespace ringside::ps
