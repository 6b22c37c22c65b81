#include "experiments/results/trace.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace ringside {
namespace {

using nlohmann::json;

json name_event(const char* what, int rank, int line, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", line}, {"args", {{"name", name}}}};
}

constexpr int main_line = 0;

/// The lines of the trace that show the communication of one rank. Spans on one line do not
/// overlap: take() puts each span on the first line that is free when the span begins.
class Lines {
 public:
  int take(const Timeline::Slice& slice) {
    std::size_t line = 0;
    while (line < free_at_.size() && free_at_[line] > slice.begin_s) ++line;
    if (line == free_at_.size()) free_at_.push_back(0);
    free_at_[line] = slice.begin_s + slice.duration_s;
    return main_line + 1 + static_cast<int>(line);
  }
  int count() const { return static_cast<int>(free_at_.size()); }

 private:
  std::vector<double> free_at_;
};

}  // namespace

json trace(const std::vector<RankRecord>& ranks) {
  double origin = std::numeric_limits<double>::max();
  for (const auto& rank : ranks)
    for (const auto& slice : rank.slices) origin = std::min(origin, slice.begin_s);

  json events = json::array();
  for (const auto& rank : ranks) {
    events.push_back(name_event("process_name", rank.rank, main_line,
                                fmt::format("rank {} ({})", rank.rank, rank.role)));
    events.push_back(name_event("thread_name", rank.rank, main_line, "main"));
    std::vector<Timeline::Slice> slices = rank.slices;
    std::sort(slices.begin(), slices.end(),
              [](const auto& a, const auto& b) { return a.begin_s < b.begin_s; });
    Lines lines;
    for (const auto& slice : slices) {
      const bool in_background = slice.activity == name_of(Activity::communication);
      events.push_back({{"name", slice.name},
                        {"cat", slice.activity},
                        {"ph", "X"},
                        {"pid", rank.rank},
                        {"tid", in_background ? lines.take(slice) : main_line},
                        {"ts", (slice.begin_s - origin) * 1e6},
                        {"dur", slice.duration_s * 1e6}});
    }
    for (int line = 1; line <= lines.count(); ++line)
      events.push_back(name_event("thread_name", rank.rank, main_line + line,
                                  fmt::format("communication {}", line)));
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

}  // namespace ringside
