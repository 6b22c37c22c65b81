#include "core/launch/straggler_watch.h"

#include <algorithm>
#include <vector>

namespace ringside {

namespace {

template <class Values>
double lower_median(const Values& values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace

std::optional<StragglerWatch::Slow> StragglerWatch::note(int rank, double compute_s) {
  std::deque<double>& own = last_[rank];
  own.push_back(compute_s);
  if (own.size() > steps) own.pop_front();
  if (own.size() < steps || named_.contains(rank)) return {};
  std::vector<double> others;
  for (const auto& [other, values] : last_)
    if (other != rank && values.size() == steps) others.push_back(lower_median(values));
  if (others.empty() || others.size() + 1 < last_.size()) return {};
  const double usual = lower_median(others), now = lower_median(own);
  if (usual < least_s || now < factor * usual) return {};
  named_.insert(rank);
  return Slow{rank, now / usual};
}

}  // namespace ringside
