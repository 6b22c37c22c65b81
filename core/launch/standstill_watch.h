// StandstillWatch: which rank makes no progress while others wait for it.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "core/observe/beats.h"

namespace ringside {

/// Listens to the steps and the beats of ranks (core/observe/beats.h). A worker stands still if it
/// does not wait, another rank does, and it has ended no step for `least_s` and for `times` times
/// the median of its last steps; before its first step, for `first_s`. A server stands still if it
/// has not looked for messages for `least_s`. A process that is stopped has no beats and is none.
/// So neither long steps nor slow links name anybody. For one thread.
class StandstillWatch {
 public:
  static constexpr double least_s = 5, first_s = 30, times = 10;
  static constexpr std::size_t steps = 10;

  /// A worker's rank has ended a step. Returns whether it had been named.
  bool note_step(int rank, double step_s);
  /// Returns whether the rank stands still and was not named before.
  bool note_beat(int rank, const Beat& beat);

 private:
  double allowed_s(int rank) const;

  std::map<int, std::deque<double>> last_;  // by rank, the newest at the end
  std::set<int> waiting_, named_;
};

}  // namespace ringside
