// The texts of a running comparison's display.
#pragma once

#include <string>
#include <vector>

#include "experiments/tools/watch/standing.h"
#include "experiments/tools/watch/terminal.h"

namespace ringside::tools::watch {

/// "45 s", "3:07 min", "1:02 h".
std::string duration_text(double seconds);

/// The progress of the present run: "[ 6/12] ddp world 2 repeat 1 step 45/200 1:20 min left 123.4
/// samples/s loss 2.3456". Empty if no run is being made.
std::string present_text(const Standing& standing, double time);
/// The result of a run that has just ended, in the same form.
std::string ended_text(const Standing& standing, const runner::RunEnded& run);
/// The progress of the comparison, or its end: "quickstart: 5 of 12 runs, 1 failed".
std::string comparison_text(const Standing& standing);

/// The table that fills in: a line for each case, with the medians of its runs or, while none has
/// ended, of the newest step. Where labels need the room, columns are left out, the least needed
/// first; then labels are cut. If `most_lines` have no room for all cases, cases are shown whose
/// runs are being made or have failed, then those with the newest events, and the last line counts
/// the others. No line if there is no room for a case.
std::vector<std::string> case_lines(const Standing& standing, int columns, int most_lines);

/// Table and present run, or the comparison if no run is being made, for a terminal of this size.
std::vector<std::string> live_lines(const Standing& standing, double time, TerminalSize size);

}  // namespace ringside::tools::watch
