#include "core/launch/straggler_watch.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ringside {

double StragglerWatch::mean(const std::deque<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<StragglerWatch::Slow> StragglerWatch::note(int rank, double compute_s) {
  std::deque<double>& own = last_[rank];
  own.push_back(compute_s);
  if (own.size() > steps) own.pop_front();
  if (own.size() < steps || named_.contains(rank)) return {};
  std::vector<double> others;
  for (const auto& [other, values] : last_)
    if (other != rank && values.size() == steps) others.push_back(mean(values));
  if (others.empty() || others.size() + 1 < last_.size()) return {};
  std::ranges::sort(others);
  const double usual = others[(others.size() - 1) / 2];
  if (usual <= 0 || mean(own) < factor * usual) return {};
  named_.insert(rank);
  return Slow{rank, mean(own) / usual};
}

}  // namespace ringside
