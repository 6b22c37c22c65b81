// The last steps of a run as a trace that chrome://tracing and ui.perfetto.dev show.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/observe/record.h"

namespace ringside {

/// Returns a trace in the Trace Event Format, with microseconds since the first span. Every rank is
/// a process of the trace. Its main thread has one line; communication has as many lines as are
/// needed for spans not to overlap.
nlohmann::json trace(const std::vector<RankRecord>& ranks);

}  // namespace ringside
