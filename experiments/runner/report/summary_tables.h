// The tables of a summary with their explanations, independent of the form in which they are shown.
#pragma once

#include <string>
#include <vector>

#include "experiments/runner/report/report.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::runner {

struct SummaryTable {
  std::string id;  // "figures", "sweep-1"
  std::string title;
  std::vector<TableLine> lines;  // the first one has the names of the columns
  std::string note{};            // text below the table, in lines; may be empty
  /// Whether summary_text() has the table too; the other tables are too long for a screen.
  bool in_text = true;
};

/// All tables that the cases have, the one with the figures of every case first.
std::vector<SummaryTable> summary_tables(const std::vector<CaseSummary>& cases);

/// Remarks, one or two sentences a line: the simulated rows with their assumptions, and the limits
/// of this comparison with their reasons. Empty texts if there are none.
std::string simulated_text(const std::vector<CaseSummary>& cases);
std::string remarks_text(const std::vector<CaseSummary>& cases);

}  // namespace ringside::runner
