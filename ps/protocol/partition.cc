#include "ps/protocol/partition.h"

#include <algorithm>
#include <numeric>

namespace ringside::ps {
namespace {

constexpr std::int64_t element = sizeof(float);
constexpr std::int64_t alignment = 64 / element;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts,
                             const std::vector<std::int64_t>& shares, std::int64_t max_bytes) {
  const std::int64_t most = std::max(alignment, max_bytes / element / alignment * alignment);
  std::vector<Chunk> chunks;
  std::int64_t unit_begin = 0;
  for (std::size_t u = 0; u < unit_counts.size(); ++u) {
    const std::int64_t count = unit_counts[u];
    const std::int64_t pieces = std::max<std::int64_t>(1, divide_up(count, most));
    const std::int64_t size = divide_up(divide_up(count, pieces), alignment) * alignment;
    for (std::int64_t begin = 0; begin < count; begin += size)
      chunks.push_back({u, unit_begin + begin, std::min(size, count - begin), 0});
    unit_begin += count;
  }

  std::vector<std::size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return chunks[a].count > chunks[b].count; });
  std::vector<std::size_t> servers;  // those that may keep something
  for (std::size_t s = 0; s < shares.size(); ++s)
    if (shares[s] > 0) servers.push_back(s);
  std::vector<std::int64_t> held(shares.size());
  for (std::size_t i : order) {
    const std::int64_t count = chunks[i].count;
    const auto least =
        std::min_element(servers.begin(), servers.end(), [&](std::size_t a, std::size_t b) {
          return (held[a] + count) * shares[b] < (held[b] + count) * shares[a];
        });
    chunks[i].server = static_cast<int>(*least);
    held[*least] += count;
  }
  return chunks;
}

std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts, int servers,
                             std::int64_t max_bytes) {
  return partition(unit_counts, std::vector<std::int64_t>(static_cast<std::size_t>(servers), 1),
                   max_bytes);
}

std::vector<Chunk> partition(const Model& model, const std::vector<std::int64_t>& shares,
                             std::int64_t max_bytes) {
  std::vector<std::int64_t> counts;
  for (const auto& unit : model.units) counts.push_back(unit->layout().count());
  return partition(counts, shares, max_bytes);
}

std::vector<Chunk> partition(const Model& model, int servers, std::int64_t max_bytes) {
  return partition(model, std::vector<std::int64_t>(static_cast<std::size_t>(servers), 1),
                   max_bytes);
}

}  // namespace ringside::ps
