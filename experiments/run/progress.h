// How far a comparison is, while it runs.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// On a terminal one line that is rewritten; else plain lines, one at the end of each run and at
/// most one every two seconds in between.
class ProgressDisplay {
 public:
  /// `now`: seconds since some moment. `runs`: all that there are to do, in order. Columns of the
  /// terminal; 0 stands for none.
  ProgressDisplay(std::ostream& out, int columns, std::vector<RunPlan> runs,
                  std::function<double()> now);

  void begin_run(std::size_t index);
  /// A step of the present run is done; `seconds` is what it took.
  void step(std::int64_t steps_done, double seconds);
  /// Ends the present run and says how.
  void end_run(const Row& row);
  /// Leaves the line that is rewritten, so that something else can be printed.
  void leave_line();

  /// Seconds until all is done, as far as can be told: a run takes as long as an earlier one of
  /// the same case, else as the mean of the earlier ones; negative while nothing is known.
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
  std::int64_t steps_done_ = 0;
  double run_began_ = 0, first_step_ended_ = 0, last_shown_ = 0;
  std::vector<double> seconds_of_runs_;
  std::size_t shown_length_ = 0;
};

/// "45 s", "3:07 min", "1:02 h".
std::string duration_text(double seconds);

}  // namespace ringside
