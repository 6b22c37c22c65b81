#include "core/observe/timeline.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ringside {

Timeline::Scope::Scope(Timeline* timeline, std::optional<Activity> activity,
                       std::string_view category, std::string name, SpanNote note)
    : timeline_(timeline),
      activity_(activity),
      category_(category),
      name_(std::move(name)),
      note_(std::move(note)) {
  if (!timeline_) return;
  if (activity_ == Activity::exposed) timeline_->waits_.fetch_add(1, std::memory_order_relaxed);
  begin_ = timeline_->now();
  timeline_->device_.begin_range(name_);
}

Timeline::Scope::~Scope() {
  if (!timeline_) return;
  if (activity_ == Activity::exposed) timeline_->waits_.fetch_sub(1, std::memory_order_relaxed);
  timeline_->device_.end_range();
  try {
    timeline_->add(
        {activity_, category_, std::move(name_), begin_, timeline_->now(), std::move(note_)});
  } catch (const Error&) {
    // A failed device gives no more marks. This failure need not be reported here: the next call
    // that uses the device throws it, if it is not being thrown already.
  }
}

void Timeline::add(Activity activity, std::string name, Mark begin, Mark end, SpanNote note) {
  add({activity, name_of(activity), std::move(name), std::move(begin), std::move(end),
       std::move(note)});
}

void Timeline::add_traced(std::string_view category, std::string name, Mark begin, SpanNote note) {
  if (traces()) add({{}, category, std::move(name), std::move(begin), now(), std::move(note)});
}

void Timeline::add(Span span) {
  std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

void Timeline::trace(bool on, bool memory) {
  if (traces_.exchange(on) == on) return;
  if (on) follows_memory_ = memory;
  if (follows_memory_) device_.ledger().keep_changes(on ? &device_.clock() : nullptr);
}

void Timeline::begin_step() {
  add_up_old_spans();
  const Mark mark = now();
  std::lock_guard lock(mutex_);
  steps_.emplace_back(mark, mark);
}

/// Adds up and drops the spans that began before the last `steps_with_spans` steps, of which the
/// step that is about to begin is one. So the number of kept spans does not grow with the number of
/// steps.
void Timeline::add_up_old_spans() {
  std::lock_guard lock(mutex_);
  if (steps_.size() < steps_with_spans) return;
  const Mark oldest = steps_[steps_.size() - (steps_with_spans - 1)].first;
  if (traces() && follows_memory_) device_.ledger().drop_changes_before(device_.time(oldest));
  const auto kept = std::stable_partition(spans_.begin(), spans_.end(), [&](const Span& span) {
    return device_.seconds(span.begin, oldest) > 0;
  });
  add_up({spans_.begin(), kept}, summed_);
  spans_.erase(spans_.begin(), kept);
}

void Timeline::end_step() {
  const Mark mark = now();
  std::lock_guard lock(mutex_);
  steps_.back().second = mark;
}

std::optional<double> Timeline::settled(Activity activity) const {
  std::lock_guard lock(mutex_);
  if (steps_.size() <= steps_with_spans) return {};
  const StepTime& settled = summed_.steps[steps_.size() - steps_with_spans - 1];
  return settled.by_activity[static_cast<std::size_t>(activity)];
}

std::vector<std::pair<double, double>> Timeline::covered(Activity activity,
                                                         const Mark& from) const {
  std::vector<std::pair<double, double>> all, out;
  {
    std::lock_guard lock(mutex_);
    for (const Span& span : spans_)
      if (span.activity == activity)
        if (const double begin = device_.seconds(from, span.begin); begin >= 0)
          all.emplace_back(begin, device_.seconds(from, span.end));
  }
  std::sort(all.begin(), all.end());
  for (const auto& [begin, end] : all) {
    if (!out.empty() && begin <= out.back().second)
      out.back().second = std::max(out.back().second, end);
    else
      out.emplace_back(begin, end);
  }
  return out;
}

std::vector<StepTime> Timeline::step_times() const {
  std::lock_guard lock(mutex_);
  Sums sums = summed_;
  add_up(spans_, sums);
  for (std::size_t s = 0; s < steps_.size(); ++s)
    sums.steps[s].total = device_.seconds(steps_[s].first, steps_[s].second);
  return sums.steps;
}

void Timeline::add_up(std::span<const Span> spans, Sums& sums) const {
  sums.steps.resize(steps_.size());
  if (steps_.empty()) return;
  const Mark origin = steps_.front().first;
  for (std::size_t a = 0; a < activities; ++a) {
    std::vector<std::pair<double, double>> intervals;
    for (const Span& span : spans)
      if (span.activity == static_cast<Activity>(a))
        intervals.emplace_back(device_.seconds(origin, span.begin),
                               device_.seconds(origin, span.end));
    std::sort(intervals.begin(), intervals.end());
    for (auto [begin, end] : intervals) {
      begin = std::max(begin, sums.covered_to[a]);  // no moment counts twice
      sums.covered_to[a] = std::max(sums.covered_to[a], end);
      for (std::size_t s = step_at(begin, origin); s < steps_.size() && begin < end; ++s) {
        const double step_begin = device_.seconds(origin, steps_[s].first);
        const double step_end = device_.seconds(origin, steps_[s].second);
        sums.steps[s].by_activity[a] +=
            std::max(0.0, std::min(end, step_end) - std::max(begin, step_begin));
        if (end <= step_end) break;
      }
    }
  }
}

std::size_t Timeline::step_at(double seconds, Mark origin) const {
  const auto earlier = [&](double time, const std::pair<Mark, Mark>& step) {
    return time < device_.seconds(origin, step.second);
  };
  return static_cast<std::size_t>(std::upper_bound(steps_.begin(), steps_.end(), seconds, earlier) -
                                  steps_.begin());
}

/// In a simulated world a span that begins with its step may begin a rounding error before it.
static constexpr double rounding_s = 1e-9;

std::vector<Slice> Timeline::slices(std::int64_t first_step) const {
  std::lock_guard lock(mutex_);
  std::vector<Slice> out;
  const auto count = static_cast<std::int64_t>(steps_.size());
  if (first_step < 0 || first_step >= count) return out;
  const Mark origin = steps_[static_cast<std::size_t>(first_step)].first;
  const auto push = [&](std::string_view category, const std::string& name, const Mark& begin,
                        const Mark& end, const SpanNote& note) {
    out.push_back({std::string(category), name, device_.time(begin), device_.seconds(begin, end),
                   note.track, std::string(note.operation), note.bytes, note.sequence, note.flows});
  };
  for (std::int64_t s = first_step; s < count; ++s) {
    const auto& [begin, end] = steps_[static_cast<std::size_t>(s)];
    push("step", fmt::format("step {}", s + 1), begin, end, {.track = "steps", .sequence = s + 1});
  }
  for (const Span& span : spans_)
    if (device_.seconds(origin, span.begin) > -rounding_s)
      push(span.category, span.name, span.begin, span.end, span.note);
  return out;
}

std::vector<MemorySample> Timeline::memory(std::int64_t first_step) const {
  if (!follows_memory_) return {};
  std::lock_guard lock(mutex_);
  if (first_step < 0 || first_step >= static_cast<std::int64_t>(steps_.size())) return {};
  return memory_samples(device_.ledger().changes(),
                        device_.time(steps_[static_cast<std::size_t>(first_step)].first));
}

std::int64_t Timeline::first_kept_step() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(steps_.size() - std::min(steps_.size(), steps_with_spans));
}

}  // namespace ringside
