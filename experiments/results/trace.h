// The last steps of a run as a trace that chrome://tracing and ui.perfetto.dev show.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/observe/record.h"

namespace ringside {

/// Trace Event Format, microseconds since the first span. One process a rank; its main thread on
/// one line, communication under way on as many lines as it takes for no two spans to overlap.
nlohmann::json trace(const std::vector<RankRecord>& ranks);

}  // namespace ringside
