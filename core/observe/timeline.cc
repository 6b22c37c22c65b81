#include "core/observe/timeline.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ringside {

std::string_view name_of(Activity activity) {
  constexpr std::array<std::string_view, activities> names = {"compute", "communication", "exposed",
                                                              "optimizer", "data"};
  return names[static_cast<std::size_t>(activity)];
}

Timeline::Scope::Scope(Timeline& timeline, Activity activity, std::string name)
    : timeline_(timeline), activity_(activity), name_(std::move(name)), begin_(timeline.now()) {}

Timeline::Scope::~Scope() { timeline_.add(activity_, std::move(name_), begin_, timeline_.now()); }

void Timeline::add(Activity activity, std::string name, Mark begin, Mark end) {
  std::lock_guard lock(mutex_);
  spans_.push_back({activity, std::move(name), begin, end});
}

void Timeline::begin_step() {
  const Mark mark = now();
  std::lock_guard lock(mutex_);
  steps_.emplace_back(mark, mark);
}

void Timeline::end_step() {
  const Mark mark = now();
  std::lock_guard lock(mutex_);
  steps_.back().second = mark;
}

std::vector<StepTime> Timeline::step_times() const {
  std::lock_guard lock(mutex_);
  if (steps_.empty()) return {};
  const Mark origin = steps_.front().first;
  std::vector<StepTime> out;
  for (const auto& [begin, end] : steps_) out.push_back({.total = device_.seconds(begin, end)});

  for (std::size_t a = 0; a < activities; ++a) {
    std::vector<std::pair<double, double>> intervals;
    for (const Span& span : spans_)
      if (span.activity == static_cast<Activity>(a))
        intervals.emplace_back(device_.seconds(origin, span.begin),
                               device_.seconds(origin, span.end));
    std::sort(intervals.begin(), intervals.end());
    double covered_to = 0;  // intervals overlap; no moment counts twice
    for (auto [begin, end] : intervals) {
      begin = std::max(begin, covered_to);
      covered_to = std::max(covered_to, end);
      for (std::size_t s = step_at(begin, origin); s < steps_.size() && begin < end; ++s) {
        const double step_begin = device_.seconds(origin, steps_[s].first);
        const double step_end = device_.seconds(origin, steps_[s].second);
        out[s].by_activity[a] +=
            std::max(0.0, std::min(end, step_end) - std::max(begin, step_begin));
        if (end <= step_end) break;
      }
    }
  }
  return out;
}

std::size_t Timeline::step_at(double seconds, Mark origin) const {
  const auto later = [&](double time, const std::pair<Mark, Mark>& step) {
    return time < device_.seconds(origin, step.second);
  };
  return static_cast<std::size_t>(std::upper_bound(steps_.begin(), steps_.end(), seconds, later) -
                                  steps_.begin());
}

std::vector<Timeline::Slice> Timeline::slices(std::int64_t first_step) const {
  std::lock_guard lock(mutex_);
  std::vector<Slice> out;
  if (first_step < 0 || first_step >= static_cast<std::int64_t>(steps_.size())) return out;
  const Mark origin = steps_[static_cast<std::size_t>(first_step)].first;
  for (const Span& span : spans_)
    if (device_.seconds(origin, span.begin) >= 0)
      out.push_back({std::string(name_of(span.activity)), span.name, span.begin.value,
                     device_.seconds(span.begin, span.end)});
  return out;
}

}  // namespace ringside
