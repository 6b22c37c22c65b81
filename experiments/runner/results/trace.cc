#include "experiments/runner/results/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace ringside::runner {
namespace {

using nlohmann::json;

constexpr std::string_view serving = "serving";
/// Actions of a pipeline (core/train/pipeline_step.cc), whose number is that of their micro-batch.
constexpr std::string_view pipelined = "pipeline";

/// The kinds of a trace's lines. Of spans that begin at the same time, those of the first kind come
/// first, because arrows lead from each kind to the next ones.
enum class LineKind { rank, communication, serving };

LineKind kind_of(const Slice& slice) {
  if (slice.activity == serving) return LineKind::serving;
  const bool in_background =
      slice.activity == name_of(Activity::communication) || slice.activity == "scalars";
  return in_background ? LineKind::communication : LineKind::rank;
}

std::string track_of(const Slice& slice) {
  if (!slice.track.empty()) return slice.track;
  return kind_of(slice) == LineKind::communication ? "communication" : "compute";
}

/// A slice at its place in the trace. Times are rounded to whole nanoseconds in the same way, so
/// slices that nest before rounding nest afterwards.
struct Placed {
  const Slice* slice;
  LineKind kind;
  int rank = 0, line = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// The lines of one rank that show one track. On each of them slices nest, or, in communication,
/// do not overlap at all.
class Track {
 public:
  /// The first line that can show the slice, counted from 0. Slices come in the order in which they
  /// begin, and of those that begin at once the longest first.
  std::size_t take(const Placed& slice) {
    for (std::size_t line = 0;; ++line) {
      if (line == open_.size()) open_.emplace_back();
      std::vector<std::int64_t>& ends = open_[line];  // of the open slices, the innermost last
      while (!ends.empty() && ends.back() <= slice.begin_ns) ends.pop_back();
      const bool fits =
          ends.empty() || (slice.kind != LineKind::communication && slice.end_ns <= ends.back());
      if (!fits) continue;
      ends.push_back(slice.end_ns);
      return line;
    }
  }

 private:
  std::vector<std::vector<std::int64_t>> open_;
};

/// The lines of one rank, numbered in the order in which they are needed.
class Lines {
 public:
  int take(const Placed& slice) {
    const std::string name = track_of(*slice.slice);
    const std::size_t of_track = tracks_[name].take(slice);
    const auto [line, is_new] =
        numbers_.try_emplace({name, of_track}, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(of_track == 0 ? name : fmt::format("{} ({})", name, of_track + 1));
    return line->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, Track> tracks_;
  std::map<std::pair<std::string, std::size_t>, int> numbers_;
  std::vector<std::string> names_;
};

/// The arrows of a trace: the slices that each of them passes, as indices into the placed slices.
class Arrows {
 public:
  void add(const Placed& placed, std::size_t index) {
    for (const std::int64_t flow : placed.slice->flows)
      points_[{flow > 0 ? placed.rank : -1, flow}].push_back(index);
  }
  /// By slice: the arrow's number, and "s", "t" or "f" where it begins, passes or ends.
  std::map<std::size_t, std::vector<std::pair<int, const char*>>> events() const {
    std::map<std::size_t, std::vector<std::pair<int, const char*>>> out;
    int number = 0;
    for (const auto& [flow, points] : points_) {
      if (points.size() < 2) continue;  // the other end lies outside of the trace
      ++number;
      for (std::size_t i = 0; i < points.size(); ++i)
        out[points[i]].emplace_back(number, i == 0 ? "s" : i + 1 == points.size() ? "f" : "t");
    }
    return out;
  }

 private:
  std::map<std::pair<int, std::int64_t>, std::vector<std::size_t>> points_;
};

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

json event_of(const Placed& placed) {
  const Slice& slice = *placed.slice;
  json event = {{"name", slice.name},
                {"cat", slice.activity},
                {"ph", "X"},
                {"pid", placed.rank},
                {"tid", placed.line},
                {"ts", microseconds(placed.begin_ns)},
                {"dur", microseconds(placed.end_ns - placed.begin_ns)}};
  json args = json::object();
  if (!slice.operation.empty()) args["operation"] = slice.operation;
  if (placed.kind == LineKind::communication && !slice.track.empty()) args["group"] = slice.track;
  if (slice.bytes > 0) args["bytes"] = slice.bytes;
  if (slice.activity == pipelined)
    args["micro_batch"] = slice.sequence - 1;
  else if (slice.sequence > 0)
    args["sequence"] = slice.sequence;
  if (!args.empty()) event["args"] = std::move(args);
  return event;
}

json metadata(const char* what, int rank, int line, const json& args) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", line}, {"args", args}};
}

/// Places the slices of a rank, and adds events that name its lines.
void place(const RankRecord& rank, const std::string& note, double origin_s,
           std::vector<Placed>& all, json& events) {
  const auto ns = [origin_s](double seconds) { return std::llround((seconds - origin_s) * 1e9); };
  std::vector<Placed> placed;
  for (const Slice& slice : rank.slices)
    placed.push_back({&slice, kind_of(slice), rank.rank, 0, ns(slice.begin_s),
                      ns(slice.begin_s + slice.duration_s)});
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin_ns, -a.end_ns) < std::pair(b.begin_ns, -b.end_ns);
  });
  Lines lines;
  for (Placed& slice : placed) slice.line = lines.take(slice);
  events.push_back(metadata("process_name", rank.rank, 0,
                            {{"name", fmt::format("rank {} ({}){}", rank.rank, rank.role, note)}}));
  events.push_back(metadata("process_sort_index", rank.rank, 0, {{"sort_index", rank.rank}}));
  for (std::size_t line = 0; line < lines.names().size(); ++line) {
    const auto tid = static_cast<int>(line);
    events.push_back(metadata("thread_name", rank.rank, tid, {{"name", lines.names()[line]}}));
    events.push_back(metadata("thread_sort_index", rank.rank, tid, {{"sort_index", tid}}));
  }
  all.insert(all.end(), placed.begin(), placed.end());
}

/// Adds the counters of a rank: for every sample the kinds that have changed, kinds that shrink
/// first, so that no sum over the kinds exceeds the bytes that the rank ever held.
void add_memory(const RankRecord& rank, double origin_s, json& events) {
  std::optional<MemoryUse> before;
  for (const MemorySample& sample : rank.memory) {
    std::vector<std::pair<std::int64_t, MemoryKind>> changed;
    for (std::size_t k = 0; k < memory_kinds; ++k) {
      const auto kind = static_cast<MemoryKind>(k);
      const std::int64_t change = sample.use[kind] - (before ? (*before)[kind] : 0);
      if (!before || change != 0) changed.emplace_back(change, kind);
    }
    std::sort(changed.begin(), changed.end());
    for (const auto& [change, kind] : changed)
      events.push_back({{"name", fmt::format("memory {}", name_of(kind))},
                        {"ph", "C"},
                        {"pid", rank.rank},
                        {"ts", microseconds(std::llround((sample.at_s - origin_s) * 1e9))},
                        {"args", {{"bytes", sample.use[kind]}}}});
    before = sample.use;
  }
}

double first_begin_s(const std::vector<RankRecord>& ranks) {
  double first = std::numeric_limits<double>::max();
  for (const RankRecord& rank : ranks) {
    for (const Slice& slice : rank.slices) first = std::min(first, slice.begin_s);
    if (!rank.memory.empty()) first = std::min(first, rank.memory.front().at_s);
  }
  return first;
}

}  // namespace

json trace(const std::vector<RankRecord>& ranks, const std::vector<std::string>& notes) {
  const double origin_s = first_begin_s(ranks);
  json events = json::array();
  std::vector<Placed> all;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    place(ranks[r], r < notes.size() ? notes[r] : "", origin_s, all, events);
  std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
    return std::tuple(a.begin_ns, a.kind, -a.end_ns) < std::tuple(b.begin_ns, b.kind, -b.end_ns);
  });
  Arrows arrows;
  for (std::size_t i = 0; i < all.size(); ++i) arrows.add(all[i], i);
  const auto arrow_events = arrows.events();
  for (std::size_t i = 0; i < all.size(); ++i) {
    events.push_back(event_of(all[i]));
    const auto found = arrow_events.find(i);
    if (found == arrow_events.end()) continue;
    // Directly behind their slice: an arrow belongs to the slice that was begun last on its line.
    for (const auto& [number, phase] : found->second) {
      json arrow = {{"name", "arrow"},
                    {"cat", "arrow"},
                    {"ph", phase},
                    {"id", number},
                    {"pid", all[i].rank},
                    {"tid", all[i].line},
                    {"ts", microseconds(all[i].begin_ns)}};
      if (phase[0] == 'f') arrow["bp"] = "e";
      events.push_back(std::move(arrow));
    }
  }
  for (const RankRecord& rank : ranks) add_memory(rank, origin_s, events);
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace ringside::runner
