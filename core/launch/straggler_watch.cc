#include "core/launch/straggler_watch.h"

#include <vector>

#include "core/observe/run_record_parts.h"

namespace ringside {

std::optional<StragglerWatch::Slow> StragglerWatch::note(int rank, double compute_s) {
  std::deque<double>& own = last_[rank];
  own.push_back(compute_s);
  if (own.size() > steps) own.pop_front();
  if (own.size() < steps || named_.contains(rank)) return {};
  std::vector<double> others;
  for (const auto& [other, values] : last_)
    if (other != rank && values.size() == steps)
      others.push_back(quantiles({values.begin(), values.end()}).median);
  if (others.empty() || others.size() + 1 < last_.size()) return {};
  const double usual = quantiles(others).median, now = quantiles({own.begin(), own.end()}).median;
  if (usual < least_s || now < factor * usual) return {};
  named_.insert(rank);
  return Slow{rank, now / usual};
}

}  // namespace ringside
