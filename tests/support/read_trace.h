// A reader of traces in the Trace Event Format, which knows their JSON alone.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringside::testing {

/// Times are in nanoseconds.
struct TraceSlice {
  std::string name, category, operation, line;  // `line`: the name of its thread
  int pid = 0, tid = 0;
  std::int64_t begin = 0, end = 0, bytes = 0, sequence = 0;
};

/// An event of an arrow, and the slice in whose place it stands; null if there is none.
struct TraceArrowEvent {
  std::string phase;
  std::int64_t at = 0;
  const TraceSlice* slice = nullptr;
};

struct TraceCounter {
  int pid = 0;
  std::string kind;
  std::int64_t at = 0, bytes = 0;
};

struct ReadTrace {
  std::vector<TraceSlice> slices;
  std::map<int, std::vector<TraceArrowEvent>> arrows;  // by number, in the order of the file
  std::vector<TraceCounter> counters;
  std::map<int, std::string> processes;
};

inline std::int64_t nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

inline ReadTrace read_trace(const nlohmann::json& trace) {
  ReadTrace out;
  std::map<std::pair<int, int>, std::string> lines;
  const nlohmann::json& events = trace.at("traceEvents");
  out.slices.reserve(events.size());  // arrows point into them
  for (const auto& event : events) {
    const int pid = event.at("pid"), tid = event.value("tid", -1);
    if (event.at("name") == "process_name") out.processes[pid] = event.at("args").at("name");
    if (event.at("name") == "thread_name") lines[{pid, tid}] = event.at("args").at("name");
  }
  for (const auto& event : events) {
    const std::string phase = event.at("ph");
    const int pid = event.at("pid"), tid = event.value("tid", -1);
    if (phase == "X") {
      const auto args = event.value("args", nlohmann::json::object());
      const std::int64_t begin = nanoseconds(event.at("ts"));
      out.slices.push_back(
          {event.at("name"), event.at("cat"), args.value("operation", ""), lines.at({pid, tid}),
           pid, tid, begin, begin + nanoseconds(event.at("dur")),
           args.value("bytes", std::int64_t{0}), args.value("sequence", std::int64_t{0})});
    } else if (phase == "s" || phase == "t" || phase == "f") {
      // Readers bind an arrow to what was begun last on its line.
      const TraceSlice* slice = nullptr;
      const std::int64_t at = nanoseconds(event.at("ts"));
      for (const TraceSlice& one : out.slices)
        if (one.pid == pid && one.tid == tid && one.begin <= at && at <= one.end) slice = &one;
      out.arrows[event.at("id")].push_back({phase, at, slice});
    } else if (phase == "C") {
      out.counters.push_back({pid, event.at("name").get<std::string>().substr(7),
                              nanoseconds(event.at("ts")), event.at("args").at("bytes")});
    }
  }
  return out;
}

/// The faults of a trace, one sentence each.
inline std::vector<std::string> faults(const ReadTrace& trace) {
  std::vector<std::string> out;
  std::map<std::pair<int, int>, std::vector<std::int64_t>> open;  // ends, the innermost last
  for (const TraceSlice& slice : trace.slices) {
    auto& ends = open[{slice.pid, slice.tid}];
    while (!ends.empty() && ends.back() <= slice.begin) ends.pop_back();
    if (!ends.empty() && slice.end > ends.back())
      out.push_back(fmt::format("'{}' on line {} of process {} ends after the span around it",
                                slice.name, slice.line, slice.pid));
    ends.push_back(slice.end);
  }
  for (const auto& [number, events] : trace.arrows) {
    const auto wrong = [&out, arrow = number](const char* what) {
      out.push_back(fmt::format("arrow {} {}", arrow, what));
    };
    if (events.size() < 2 || events.front().phase != "s" || events.back().phase != "f")
      wrong("has no begin or no end");
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (!events[i].slice) wrong("is bound to no span");
      if (i > 0 && events[i].at < events[i - 1].at) wrong("goes back in time");
      if (i > 0 && i + 1 < events.size() && events[i].phase != "t") wrong("begins or ends twice");
    }
  }
  for (const TraceCounter& counter : trace.counters)
    if (counter.bytes < 0)
      out.push_back(fmt::format("{} memory of process {} is negative", counter.kind, counter.pid));
  return out;
}

/// The largest sum over the kinds of memory that a process shows at any event.
inline std::int64_t memory_peak(const ReadTrace& trace, int pid) {
  std::map<std::string, std::int64_t> held;
  std::int64_t peak = 0;
  for (const TraceCounter& counter : trace.counters) {
    if (counter.pid != pid) continue;
    held[counter.kind] = counter.bytes;
    std::int64_t sum = 0;
    for (const auto& [kind, bytes] : held) sum += bytes;
    peak = std::max(peak, sum);
  }
  return peak;
}

/// Nanoseconds within the process's steps in which at least one span of the category was open.
inline std::int64_t covered_in_steps(const ReadTrace& trace, int pid, const std::string& category) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans, steps;
  for (const TraceSlice& slice : trace.slices) {
    if (slice.pid != pid) continue;
    if (slice.category == category) spans.emplace_back(slice.begin, slice.end);
    if (slice.category == "step") steps.emplace_back(slice.begin, slice.end);
  }
  std::sort(spans.begin(), spans.end());
  std::int64_t covered = 0, until = 0;
  for (auto [begin, end] : spans) {
    begin = std::max(begin, until);
    until = std::max(until, end);
    for (const auto& [first, last] : steps)
      covered += std::max<std::int64_t>(0, std::min(end, last) - std::max(begin, first));
  }
  return covered;
}

}  // namespace ringside::testing
