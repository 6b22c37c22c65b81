// The order in which the values of several ranks are added up.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

/// One addition: adds the current value of rank `from` to that of rank `into`.
struct Addition {
  int into = 0, from = 0;
  bool operator==(const Addition&) const = default;
};

/// The order in which elements [begin, begin + count) are added up: the additions follow each other
/// in this order, each element by element and rounded to its type. The sum is the value of the last
/// addition's `into`; without additions, that of rank 0.
struct Sum {
  std::int64_t begin = 0, count = 0;
  std::vector<Addition> additions;
};

/// Adds `count` elements up rank by rank.
inline Sum in_rank_order(std::int64_t count, int ranks) {
  Sum out{0, count, {}};
  for (int r = 1; r < ranks; ++r) out.additions.push_back({0, r});
  return out;
}

}  // namespace ringside
