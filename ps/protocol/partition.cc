#include "ps/protocol/partition.h"

#include <algorithm>
#include <numeric>

namespace ringside::ps {
namespace {

constexpr std::int64_t element = sizeof(float);
constexpr std::int64_t alignment = 64 / element;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Chunks of which one server keeps all.
struct Piece {
  std::vector<Chunk> chunks;
  std::int64_t count = 0;
};

/// Elements [begin, begin + count) of a unit as few nearly equal chunks.
Piece cut(std::size_t unit, std::int64_t begin, std::int64_t count, std::int64_t max_bytes) {
  const std::int64_t most = std::max(alignment, max_bytes / element / alignment * alignment);
  const std::int64_t parts = std::max<std::int64_t>(1, divide_up(count, most));
  const std::int64_t size = divide_up(divide_up(count, parts), alignment) * alignment;
  Piece piece{.chunks = {}, .count = count};
  for (std::int64_t from = 0; from < count; from += size)
    piece.chunks.push_back({unit, begin + from, std::min(size, count - from), 0});
  return piece;
}

/// The servers whose share is above 0.
std::vector<std::size_t> with_share(const std::vector<std::int64_t>& shares) {
  std::vector<std::size_t> servers;
  for (std::size_t s = 0; s < shares.size(); ++s)
    if (shares[s] > 0) servers.push_back(s);
  return servers;
}

/// Returns the server of each piece, the largest first.
std::vector<std::size_t> largest_first(const std::vector<Piece>& pieces,
                                       const std::vector<std::int64_t>& shares) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].count > pieces[b].count; });
  const std::vector<std::size_t> servers = with_share(shares);
  std::vector<std::int64_t> held(shares.size());
  std::vector<std::size_t> server_of(pieces.size());
  for (const std::size_t i : order) {
    const std::int64_t count = pieces[i].count;
    const auto least =
        std::min_element(servers.begin(), servers.end(), [&](std::size_t a, std::size_t b) {
          return (held[a] + count) * shares[b] < (held[b] + count) * shares[a];
        });
    server_of[i] = *least;
    held[*least] += count;
  }
  return server_of;
}

std::vector<std::size_t> in_turn(const std::vector<Piece>& pieces,
                                 const std::vector<std::int64_t>& shares) {
  const std::vector<std::size_t> servers = with_share(shares);
  std::vector<std::size_t> server_of(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) server_of[i] = servers[i % servers.size()];
  return server_of;
}

std::vector<Chunk> chunks_of(std::vector<Piece> pieces, const std::vector<std::size_t>& server_of) {
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    for (Chunk& chunk : pieces[i].chunks) {
      chunk.server = static_cast<int>(server_of[i]);
      chunks.push_back(chunk);
    }
  return chunks;
}

}  // namespace

std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts,
                             const std::vector<std::int64_t>& shares, std::int64_t max_bytes) {
  std::vector<Piece> pieces;
  std::int64_t begin = 0;
  for (std::size_t u = 0; u < unit_counts.size(); ++u) {
    for (const Chunk& chunk : cut(u, begin, unit_counts[u], max_bytes).chunks)
      pieces.push_back({{chunk}, chunk.count});
    begin += unit_counts[u];
  }
  const std::vector<std::size_t> servers = largest_first(pieces, shares);
  return chunks_of(std::move(pieces), servers);
}

std::vector<Chunk> partition_tensors(const std::vector<std::vector<std::int64_t>>& tensors,
                                     const std::vector<std::int64_t>& shares, PartitionBy by,
                                     std::int64_t max_bytes) {
  std::vector<Piece> pieces;
  std::int64_t begin = 0;
  for (std::size_t u = 0; u < tensors.size(); ++u)
    for (const std::int64_t count : tensors[u]) {
      pieces.push_back(cut(u, begin, count, max_bytes));
      begin += count;
    }
  const std::vector<std::size_t> servers =
      by == PartitionBy::round_robin ? in_turn(pieces, shares) : largest_first(pieces, shares);
  return chunks_of(std::move(pieces), servers);
}

std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts, int servers,
                             std::int64_t max_bytes) {
  return partition(unit_counts, std::vector<std::int64_t>(static_cast<std::size_t>(servers), 1),
                   max_bytes);
}

std::vector<Chunk> partition(const Model& model, const std::vector<std::int64_t>& shares,
                             std::int64_t max_bytes, PartitionBy by) {
  std::vector<std::int64_t> counts;
  std::vector<std::vector<std::int64_t>> tensors;
  for (const auto& unit : model.units) {
    counts.push_back(unit->layout().count());
    std::vector<std::int64_t>& sizes = tensors.emplace_back();
    for (const Parameter& parameter : unit->layout().parameters())
      sizes.push_back(parameter.shape.count());
  }
  if (by == PartitionBy::parts) return partition(counts, shares, max_bytes);
  return partition_tensors(tensors, shares, by, max_bytes);
}

std::vector<Chunk> partition(const Model& model, int servers, std::int64_t max_bytes) {
  return partition(model, std::vector<std::int64_t>(static_cast<std::size_t>(servers), 1),
                   max_bytes);
}

}  // namespace ringside::ps
