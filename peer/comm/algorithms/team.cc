#include "peer/comm/algorithms/team.h"

#include <numeric>

#include "peer/comm/part.h"

namespace ringside::peer {

Team everyone(const Exchange& exchange) {
  Team team{std::vector<int>(static_cast<std::size_t>(exchange.size())), exchange.rank()};
  std::iota(team.ranks.begin(), team.ranks.end(), 0);
  return team;
}

std::vector<Chunk> divide(const Elements& whole, int members) {
  std::vector<Chunk> chunks;
  for (int i = 0; i < members; ++i) {
    const Part part = part_of(static_cast<std::size_t>(whole.count), i, members);
    chunks.push_back({{whole.array, whole.begin + static_cast<std::int64_t>(part.begin),
                       static_cast<std::int64_t>(part.count)}});
  }
  return chunks;
}

std::vector<Chunk> equal_parts(Array array, std::int64_t count, int members) {
  std::vector<Chunk> chunks;
  const std::int64_t n = count / members;
  for (int i = 0; i < members; ++i) chunks.push_back({{array, i * n, n}});
  return chunks;
}

}  // namespace ringside::peer
