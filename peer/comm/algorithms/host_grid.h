// The ranks of a group by host.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "peer/comm/algorithms/team.h"

namespace ringside::peer {

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

}  // namespace ringside::peer
