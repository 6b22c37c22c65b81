// A reader of the traces that experiments/runner/results/trace.h writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringside::runner {

/// A span of a rank in a trace. Times are in nanoseconds since the trace begins.
struct TracedSpan {
  std::string name;
  /// The name of an Activity, or a category that counts for no activity, as "step".
  std::string category;
  std::string line;  // the name of the line that shows the span: "compute", "serving"
  std::int64_t begin_ns = 0, end_ns = 0;
  /// Empty or 0 if the trace lacks it (core/observe/slice.h).
  std::string operation{}, group{};
  std::int64_t bytes = 0;
  std::vector<std::int64_t> arrows{};  // numbers of the arrows that begin, pass or end here
};

/// The spans by rank, in the order of the file: of spans that begin together on a line the longest
/// comes first. A rank that the trace names but does not show has none.
using TracedSpans = std::map<int, std::vector<TracedSpan>>;

/// Throws Error if the text is no trace. Counters are left out.
TracedSpans read_trace(const nlohmann::json& trace);
/// Does so for a file. Throws Error that names the file if it is not there or cannot be read.
TracedSpans read_trace_file(const std::filesystem::path& file);

}  // namespace ringside::runner
