// Progress events rebuilt from a results folder without progress.jsonl.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/runner/run/events.h"

namespace ringside {

/// The events that tell of the rows in a folder of results, for a folder that has no file of
/// events. The end of the comparison is among them if every run has a row. Adds to `complaints`
/// what cannot be read. Throws Error if the folder has no results.
std::vector<ProgressEvent> rows_as_events(const std::filesystem::path& folder,
                                          std::vector<std::string>& complaints);

}  // namespace ringside
