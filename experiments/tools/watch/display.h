// The progress display for a user who waits for a comparison.
#pragma once

#include <functional>
#include <iosfwd>
#include <string_view>

#include "experiments/tools/watch/standing.h"
#include "experiments/tools/watch/terminal.h"

namespace ringside::tools::watch {

/// Prints one line at the end of each run. Below these lines a terminal has the table of cases as
/// it fills in, and the progress of the present run (live_lines()), redrawn in place. Other outputs
/// get a line about the present run at most every two seconds.
class ProgressDisplay : public runner::ProgressListener {
 public:
  /// `size` returns the size of the terminal, if `out` is one.
  ProgressDisplay(std::ostream& out, std::function<TerminalSize()> size);

  void hear(const runner::ProgressEvent& event) override;
  /// Takes an event of the past: nothing is shown of it until the next call of another function.
  void catch_up(const runner::ProgressEvent& event) { standing_.hear(event); }
  /// Redraws a terminal's table, with the time that is left at `time`.
  void draw(double time);
  /// Erases the table, so that other text can take its place.
  void leave() { block_.leave(); }
  /// Prints text of others, such as ranks: whole or broken lines.
  void print(std::string_view text) { block_.print(text); }

  const Standing& standing() const { return standing_; }

 private:
  std::function<TerminalSize()> size_;
  TerminalBlock block_;
  Standing standing_;
  double last_line_ = 0;  // when a line about the present run was printed, or the run began
};

}  // namespace ringside::tools::watch
