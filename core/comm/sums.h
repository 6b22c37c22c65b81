// The order in which the values of several ranks are added up.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

/// One addition: the value of rank `into` grows by the value that rank `from` has by then.
struct Addition {
  int into = 0, from = 0;
  bool operator==(const Addition&) const = default;
};

/// How elements [begin, begin + count) are added up: the additions are made in this order, each on
/// single elements and rounded to their type. The sum is the value of the last addition's `into`;
/// without additions, that of rank 0.
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
