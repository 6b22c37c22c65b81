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
  /// Whether summary_text() has the table too; the others say more than fits on a screen.
  bool in_text = true;
};

/// All tables that the cases have, the one with the figures of every case first.
std::vector<SummaryTable> summary_tables(const std::vector<CaseSummary>& cases);

/// One sentence or two a line: which rows were simulated and what was assumed, and what this
/// comparison in particular cannot tell, and why. Empty texts where there is nothing to say.
std::string simulated_text(const std::vector<CaseSummary>& cases);
std::string remarks_text(const std::vector<CaseSummary>& cases);

}  // namespace ringside::runner
