#include "ps/protocol/partition.h"

#include <algorithm>
#include <numeric>

namespace ringside::ps {
namespace {

constexpr std::int64_t element = sizeof(float);
constexpr std::int64_t alignment = 64 / element;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts, int servers,
                             std::int64_t max_bytes) {
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
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers));
  for (std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    chunks[i].server = static_cast<int>(least - load.begin());
    *least += chunks[i].count;
  }
  return chunks;
}

std::vector<Chunk> partition(const Model& model, int servers, std::int64_t max_bytes) {
  std::vector<std::int64_t> counts;
  for (const auto& unit : model.units) counts.push_back(unit->layout().count());
  return partition(counts, servers, max_bytes);
}

}  // namespace ringside::ps
