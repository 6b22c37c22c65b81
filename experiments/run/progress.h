// Shows how far a comparison has come while it runs.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// Prints one line at the end of each run. In between, a terminal shows one line that is
/// overwritten again and again; other outputs get at most one more line every two seconds.
class ProgressDisplay {
 public:
  /// `columns` is the width of the terminal; 0 if `out` is no terminal. `runs` are all runs to
  /// make, in their order. `now` returns seconds since some fixed moment.
  ProgressDisplay(std::ostream& out, int columns, std::vector<RunPlan> runs,
                  std::function<double()> now);

  /// Begins attempt number `attempt` (counted from 1) at run `index`. A run gets at most
  /// `most_attempts` attempts.
  void begin_run(std::size_t index, int attempt = 1, int most_attempts = 1);
  /// Shows that the present run has done a step that took `seconds`.
  void step(std::int64_t steps_done, double seconds);
  /// Ends the present run and shows its result.
  void end_run(const Row& row);
  /// Erases the line that is overwritten again and again, so that other text can take its place.
  void leave_line();

  /// The estimated seconds until all runs are done; negative while nothing is known. A run is
  /// expected to take as long as an earlier run of the same case. If there is none, it is expected
  /// to take the mean time of all earlier runs.
  double seconds_left() const;

 private:
  std::string head() const;
  void show(const std::string& line);
  double expected_seconds(std::size_t index) const;

  std::ostream& out_;
  int columns_;
  std::vector<RunPlan> runs_;
  std::function<double()> now_;
  std::size_t index_ = 0;
  int attempt_ = 1, most_attempts_ = 1;
  std::int64_t steps_done_ = 0;
  double run_began_ = 0, first_step_ended_ = 0, last_shown_ = 0;
  std::vector<double> seconds_of_runs_;
  std::size_t shown_length_ = 0;
};

/// "45 s", "3:07 min", "1:02 h".
std::string duration_text(double seconds);

}  // namespace ringside
