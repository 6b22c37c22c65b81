// The last steps of a run as a trace for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/observe/rank_record.h"

namespace ringside::runner {

/// Returns a trace in the Trace Event Format, with microseconds since the first span. Every rank is
/// a process of the trace. Its line "compute" shows what its main thread does, and a server's line
/// "serving" what the server does; spans nest there. Every communicator, and every server that a
/// rank asks, has as many lines as are needed for spans not to overlap. Arrows lead from where an
/// operation is begun to the operation, and from a push to its update. Counters show what each kind
/// of memory holds. Bytes, sequence numbers and operations are arguments of spans. What `notes` say
/// of ranks, by rank, stands behind their names.
nlohmann::json trace(const std::vector<RankRecord>& ranks,
                     const std::vector<std::string>& notes = {});

}  // namespace ringside::runner
