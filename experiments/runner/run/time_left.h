// An estimate of the time until a comparison is done.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/runner/run/events.h"

namespace ringside {

/// Estimates the time until all runs are done. A run is expected to take as long as an earlier run
/// of the same line. If there is none, it is expected to take the mean time of all earlier runs, or
/// that of the present run. All times are seconds since some fixed moment.
class TimeLeft {
 public:
  /// `runs` are those that are to be made, in their order.
  explicit TimeLeft(std::vector<PlannedRun> runs = {}) : runs_(std::move(runs)) {}

  void begin_run(std::size_t index, double now);
  void step(std::int64_t steps_done, double now);
  /// `made_again`: another attempt at the run follows.
  void end_run(double now, bool made_again = false);
  /// Nothing while nothing is known.
  std::optional<double> seconds(double now) const;

 private:
  std::optional<double> expected(std::size_t index) const;

  std::vector<PlannedRun> runs_;
  std::vector<double> seconds_of_runs_;  // 0 for runs that have not ended
  std::size_t index_ = 0;                // of the present run, or of the one that is next
  bool running_ = false;
  double began_ = 0;
  std::int64_t first_steps_ = 0, steps_ = 0;  // done at the first and at the newest report
  double first_reported_ = 0;
};

}  // namespace ringside
