#include "core/launch/standstill_watch.h"

#include <algorithm>

#include "core/observe/run_record_parts.h"

namespace ringside {

bool StandstillWatch::note_step(int rank, double step_s) {
  std::deque<double>& own = last_[rank];
  own.push_back(step_s);
  if (own.size() > steps) own.pop_front();
  waiting_.erase(rank);
  return named_.erase(rank) > 0;
}

double StandstillWatch::allowed_s(int rank) const {
  const auto own = last_.find(rank);
  if (own == last_.end()) return first_s;
  return std::max(least_s, times * quantiles({own->second.begin(), own->second.end()}).median);
}

bool StandstillWatch::note_beat(int rank, const Beat& beat) {
  if (beat.waits) {
    waiting_.insert(rank);
    return false;
  }
  waiting_.erase(rank);
  if (waiting_.empty() || beat.quiet_s < (beat.serves ? least_s : allowed_s(rank))) return false;
  return named_.insert(rank).second;
}

}  // namespace ringside
