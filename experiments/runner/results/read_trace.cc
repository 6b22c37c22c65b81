#include "experiments/runner/results/read_trace.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace ringside::runner {
namespace {

using nlohmann::json;

std::int64_t nanoseconds(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

TracedSpan span_of(const json& event, const std::string& line) {
  const json args = event.value("args", json::object());
  const std::int64_t begin = nanoseconds(event.at("ts"));
  return {.name = event.at("name"),
          .category = event.value("cat", ""),
          .line = line,
          .begin_ns = begin,
          .end_ns = begin + nanoseconds(event.at("dur")),
          .operation = args.value("operation", ""),
          .group = args.value("group", ""),
          .bytes = args.value("bytes", std::int64_t{0})};
}

TracedSpans spans_of(const json& trace) {
  TracedSpans ranks;
  std::map<std::pair<int, int>, std::string> lines;
  TracedSpan* last = nullptr;  // the one that arrows belong to: they stand directly behind it
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const int rank = event.at("pid");
    const std::pair line(rank, event.value("tid", 0));
    std::vector<TracedSpan>& spans = ranks[rank];
    if (phase == "M" && event.at("name") == "thread_name")
      lines[line] = event.at("args").at("name");
    else if (phase == "X")
      last = &spans.emplace_back(span_of(event, lines[line]));
    else if (last && (phase == "s" || phase == "t" || phase == "f"))
      last->arrows.push_back(event.at("id"));
  }
  return ranks;
}

}  // namespace

TracedSpans read_trace(const json& trace) {
  try {
    return spans_of(trace);
  } catch (const json::exception& error) {
    throw Error("this is no trace of a run: {}", error.what());
  }
}

TracedSpans read_trace_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw Error("{} is not there", file.string());
  const json trace = json::parse(in, nullptr, false);
  if (trace.is_discarded()) throw Error("{} is no JSON; it may have been cut short", file.string());
  try {
    return read_trace(trace);
  } catch (const Error& error) {
    throw Error("{}: {}", file.string(), error.what());
  }
}

}  // namespace ringside::runner
