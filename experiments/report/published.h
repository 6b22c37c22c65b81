// What somebody published of a comparison's runs, beside what came out.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/report.h"

namespace ringside {

/// The step or the samples/s of the case, whichever was published, divided by the published figure,
/// minus 1. Nothing for a case of which nothing was published, or which did not finish.
std::optional<double> deviation(const CaseSummary& one);

/// One line for each case of which something was published, and below them, for each experiment,
/// the median and the largest deviation of its predictions and of its fitted figures. The cases may
/// be of several experiments. Empty if nothing was published of any case.
std::string published_text(const std::vector<CaseSummary>& cases);

}  // namespace ringside
