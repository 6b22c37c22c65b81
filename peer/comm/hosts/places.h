// The places of a group's ranks: hosts, and the columns into which hosts divide arrays.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

namespace ringside::peer {

/// Hosts are numbered in the order of their first ranks, and the ranks of a host by their places on
/// it, in rank order. Rank i of every host works on column i of an array, and exchanges it with the
/// ranks i of other hosts; there are as many columns as the smallest host has ranks.
class Places {
 public:
  /// `hosts` has the host of every rank: ranks with the same number share a host.
  Places(const std::vector<int>& hosts, int rank) : rank_(rank) {
    std::map<int, int> known;
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      const auto [at, fresh] = known.try_emplace(hosts[r], static_cast<int>(known.size()));
      if (fresh) ranks_.emplace_back();
      auto& members = ranks_[static_cast<std::size_t>(at->second)];
      host_.push_back(at->second);
      place_.push_back(static_cast<int>(members.size()));
      members.push_back(static_cast<int>(r));
    }
    columns_ = static_cast<int>(ranks_.front().size());
    for (const auto& members : ranks_)
      columns_ = std::min(columns_, static_cast<int>(members.size()));
  }

  int size() const { return static_cast<int>(host_.size()); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  int columns() const { return columns_; }
  int rank() const { return rank_; }
  int host() const { return host_of(rank_); }
  int place() const { return place_of(rank_); }
  bool has_column() const { return place() < columns_; }

  int host_of(int rank) const { return host_[static_cast<std::size_t>(rank)]; }
  int place_of(int rank) const { return place_[static_cast<std::size_t>(rank)]; }
  /// The column in which another rank's part of an array moves.
  int column_of(int rank) const { return place_of(rank) % columns_; }
  const std::vector<int>& ranks(int host) const { return ranks_[static_cast<std::size_t>(host)]; }
  const std::vector<int>& here() const { return ranks(host()); }
  /// The rank on another host that has the same column as this rank.
  int counterpart_on(int host) const { return ranks(host)[static_cast<std::size_t>(place())]; }
  bool shares_host(int rank) const { return host_of(rank) == host(); }

  /// Whether all ranks of a host come before those of the next.
  bool contiguous() const { return std::is_sorted(host_.begin(), host_.end()); }
  bool alone_everywhere() const { return hosts() == size(); }

 private:
  int rank_, columns_ = 0;
  std::vector<std::vector<int>> ranks_;  // of every host
  std::vector<int> host_, place_;        // of every rank
};

}  // namespace ringside::peer
