// The tables of a summary, in Markdown.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/report.h"

namespace ringside {

/// One line a case.
std::string figures_table(const std::vector<CaseSummary>& cases);
/// Held-out losses; empty where nothing was evaluated.
std::string evaluation_table(const std::vector<CaseSummary>& cases);
/// One line a role of a case; empty where no case has finished.
std::string memory_table(const std::vector<CaseSummary>& cases);

// ---- which columns they have

bool with_predictions(const std::vector<CaseSummary>& cases);
bool with_all_cores(const std::vector<CaseSummary>& cases);
/// Memory as the driver of a device counts it.
bool with_device_memory(const std::vector<CaseSummary>& cases);
/// "cores", "GPUs", or nothing where ranks were simulated.
std::string cores_column(const std::vector<CaseSummary>& cases);

}  // namespace ringside
