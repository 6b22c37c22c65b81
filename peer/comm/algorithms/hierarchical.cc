// Hierarchical, for an array of S bytes on H hosts with g ranks each: a reduce-scatter by a ring
// within every host, an all-reduce by rings between ranks that have the same place on their hosts,
// and an all-gather within every host (as in Horovod's hierarchical all-reduce and in BlueConnect,
// Cho et al. 2019). An all-reduce costs 2 * (g-1) + 2 * (H-1) steps; of the bytes that a rank
// sends, 2 * S/g * (H-1)/H go to another host. All hosts must have equally many ranks.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/algorithms/ring.h"
#include "peer/comm/algorithms/team.h"

namespace ringside::peer {
namespace {

/// The ranks of every host, in rank order; hosts in the order of their first ranks.
class HostGrid {
 public:
  explicit HostGrid(const std::vector<int>& hosts) {
    std::map<int, std::size_t> rows;
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      const auto [row, fresh] = rows.try_emplace(hosts[r], rows.size());
      if (fresh) ranks_.emplace_back();
      auto& members = ranks_[row->second];
      at_.emplace_back(static_cast<int>(row->second), static_cast<int>(members.size()));
      members.push_back(static_cast<int>(r));
    }
  }

  int hosts() const { return static_cast<int>(ranks_.size()); }
  int per_host() const { return static_cast<int>(ranks_[0].size()); }
  bool even() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const auto& row) { return row.size() == ranks_[0].size(); });
  }
  int rank(int host, int place) const {
    return ranks_[static_cast<std::size_t>(host)][static_cast<std::size_t>(place)];
  }
  /// The ranks of a rank's host, and the ranks that have the same place on every host.
  Team within(int rank) const { return {ranks_[at(rank).first], at(rank).second}; }
  Team across(int rank) const {
    Team team{{}, static_cast<int>(at(rank).first)};
    for (int host = 0; host < hosts(); ++host)
      team.ranks.push_back(this->rank(host, at(rank).second));
    return team;
  }

 private:
  struct At {
    std::size_t first;
    int second;
  };
  At at(int rank) const {
    const auto& [host, place] = at_[static_cast<std::size_t>(rank)];
    return {static_cast<std::size_t>(host), place};
  }

  std::vector<std::vector<int>> ranks_;
  std::vector<std::pair<int, int>> at_;  // host and place of every rank
};

/// The chunks of an array for a rank's host and, of the chunk that is the rank's own there, those
/// for the ranks across hosts.
struct Chunks {
  std::vector<Chunk> within, across;
};

/// For arrays that all ranks have whole.
Chunks divided(const HostGrid& grid, int rank, std::int64_t count) {
  Chunks out;
  out.within = divide({Array::in, 0, count}, grid.per_host());
  const int place = grid.within(rank).place;
  out.across = divide(out.within[static_cast<std::size_t>(place)][0], grid.hosts());
  return out;
}

/// For arrays that consist of equal parts, one for each rank.
Chunks in_parts(const HostGrid& grid, int rank, Array array, std::int64_t count) {
  Chunks out;
  const auto parts = equal_parts(array, count, grid.hosts() * grid.per_host());
  const auto part = [&](int host, int place) {
    return parts[static_cast<std::size_t>(grid.rank(host, place))][0];
  };
  for (int place = 0; place < grid.per_host(); ++place) {
    out.within.emplace_back();
    for (int host = 0; host < grid.hosts(); ++host) out.within.back().push_back(part(host, place));
  }
  for (int host = 0; host < grid.hosts(); ++host)
    out.across.push_back({part(host, grid.within(rank).place)});
  return out;
}

void hierarchical_all_reduce(Exchange& exchange) {
  const HostGrid grid(exchange.hosts());
  const Team within = grid.within(exchange.rank()), across = grid.across(exchange.rank());
  const Chunks chunks = divided(grid, exchange.rank(), exchange.count(Array::in));
  ring_scatter(exchange, within, chunks.within);
  ring_scatter(exchange, across, chunks.across);
  ring_gather(exchange, across, chunks.across);
  ring_gather(exchange, within, chunks.within);
}

void hierarchical_reduce_scatter(Exchange& exchange) {
  const HostGrid grid(exchange.hosts());
  const Team within = grid.within(exchange.rank()), across = grid.across(exchange.rank());
  const auto chunks = in_parts(grid, exchange.rank(), Array::in, exchange.count(Array::in));
  ring_scatter(exchange, within, chunks.within);
  ring_scatter(exchange, across, chunks.across);
  exchange.copy(chunks.across[static_cast<std::size_t>(across.place)][0],
                {Array::out, 0, exchange.count(Array::out)});
}

void hierarchical_all_gather(Exchange& exchange) {
  const HostGrid grid(exchange.hosts());
  const Team within = grid.within(exchange.rank()), across = grid.across(exchange.rank());
  const auto chunks = in_parts(grid, exchange.rank(), Array::out, exchange.count(Array::out));
  exchange.copy({Array::in, 0, exchange.count(Array::in)},
                chunks.across[static_cast<std::size_t>(across.place)][0]);
  ring_gather(exchange, across, chunks.across);
  ring_gather(exchange, within, chunks.within);
}

std::vector<Sum> hierarchical_sums(Collective::Kind kind, std::int64_t count,
                                   const std::vector<int>& hosts) {
  const HostGrid grid(hosts);
  std::vector<Sum> out;
  for (int place = 0; place < grid.per_host(); ++place)
    for (int host = 0; host < grid.hosts(); ++host) {
      const int owner = grid.rank(host, place);
      const Chunks chunks = kind == Collective::Kind::all_reduce
                                ? divided(grid, owner, count)
                                : in_parts(grid, owner, Array::in, count);
      const Elements& part = chunks.across[static_cast<std::size_t>(host)][0];
      out.push_back({part.begin, part.count, {}});
      const auto append = [&](const std::vector<Addition>& more) {
        out.back().additions.insert(out.back().additions.end(), more.begin(), more.end());
      };
      for (int h = 0; h < grid.hosts(); ++h)
        append(ring_additions(grid.within(grid.rank(h, place)), place));
      append(ring_additions(grid.across(owner), host));
    }
  std::sort(out.begin(), out.end(), [](const Sum& a, const Sum& b) { return a.begin < b.begin; });
  return out;
}

void hierarchical_check(const std::vector<int>& hosts) {
  if (!HostGrid(hosts).even())
    throw Error(
        "algorithm hierarchical needs equally many ranks on every host; choose another algorithm, "
        "or fill all hosts");
}

}  // namespace

AlgorithmRow hierarchical_row() {
  return {.algorithm = Algorithm::hierarchical,
          .summary = "rings within every host, and rings between the hosts",
          .all_reduce = hierarchical_all_reduce,
          .reduce_scatter = hierarchical_reduce_scatter,
          .all_gather = hierarchical_all_gather,
          .sums = hierarchical_sums,
          .check = hierarchical_check};
}

}  // namespace ringside::peer
