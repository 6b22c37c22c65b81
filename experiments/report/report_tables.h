// The tables of a summary, in Markdown.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/report.h"

namespace ringside {

/// One line for each case.
std::string figures_table(const std::vector<CaseSummary>& cases);
/// The held-out losses; empty if no case was evaluated.
std::string evaluation_table(const std::vector<CaseSummary>& cases);
/// What schemes report of themselves; empty if none does.
std::string scheme_figures_table(const std::vector<CaseSummary>& cases);
/// How stale gradients were; empty if no case has gradients that may be.
std::string staleness_table(const std::vector<CaseSummary>& cases);
/// What each case paid to reach the target of the comparison; empty if it has none.
std::string time_to_loss_table(const std::vector<CaseSummary>& cases);
/// One line for each role of each case; empty if no case has finished.
std::string memory_table(const std::vector<CaseSummary>& cases);

// ---- which columns the tables have

bool with_predictions(const std::vector<CaseSummary>& cases);
/// Whether the errors of a cluster give an interval of a simulated step.
bool with_intervals(const std::vector<CaseSummary>& cases);
bool with_all_cores(const std::vector<CaseSummary>& cases);
/// Whether the table of memory has the columns for the memory of a device: what its allocator took
/// from the driver, and what others took besides.
bool with_device_memory(const std::vector<CaseSummary>& cases);
/// Whether the table of memory has lines for what ranks hold in the memory of their hosts.
bool with_host_memory(const std::vector<CaseSummary>& cases);
/// The title of the column with the cores or GPUs at work: "cores", "GPUs", or empty if no case has
/// such a figure.
std::string cores_column(const std::vector<CaseSummary>& cases);

}  // namespace ringside
