// The last steps of a run as a trace for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/observe/rank_record.h"

namespace ringside::runner {

/// Returns a trace in the Trace Event Format, with microseconds since the first span. Every rank is
/// a process of the trace. Its line "compute" shows the work of its main thread, and a server's
/// line "serving" that of the server; spans nest there. Every communicator, and every server to
/// which a rank sends requests, has as many lines as are needed for spans not to overlap. Arrows
/// lead from the begin of an operation on the main thread to the operation, and from a push to its
/// update. Counters show the bytes of each kind of memory. Bytes, sequence numbers and operations
/// are arguments of spans. `notes`, by rank, stand behind the names of ranks.
nlohmann::json trace(const std::vector<RankRecord>& ranks,
                     const std::vector<std::string>& notes = {});

}  // namespace ringside::runner
