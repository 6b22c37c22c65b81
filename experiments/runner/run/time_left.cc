#include "experiments/runner/run/time_left.h"

#include <algorithm>

namespace ringside {

void TimeLeft::begin_run(std::size_t index, double now) {
  index_ = index;
  running_ = true;
  began_ = now;
  first_steps_ = steps_ = 0;
}

void TimeLeft::step(std::int64_t steps_done, double now) {
  if (first_steps_ == 0) {
    first_steps_ = steps_done;
    first_reported_ = now;
  }
  steps_ = steps_done;
}

void TimeLeft::end_run(double now, bool made_again) {
  seconds_of_runs_.resize(runs_.size());
  seconds_of_runs_[index_] = now - began_;
  running_ = false;
  if (!made_again) ++index_;
}

std::optional<double> TimeLeft::expected(std::size_t index) const {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < seconds_of_runs_.size(); ++i) {
    if (seconds_of_runs_[i] <= 0) continue;
    if (runs_[i].line == runs_[index].line) return seconds_of_runs_[i];
    sum += seconds_of_runs_[i];
    count += 1;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

std::optional<double> TimeLeft::seconds(double now) const {
  if (index_ >= runs_.size()) return 0;
  std::optional<double> this_run = expected(index_);
  const double run_so_far = running_ ? now - began_ : 0;
  if (running_ && steps_ > first_steps_) {
    const double each = (now - first_reported_) / static_cast<double>(steps_ - first_steps_);
    this_run = run_so_far + each * static_cast<double>(runs_[index_].steps - steps_);
  }
  if (!this_run) return {};
  double left = std::max(0.0, *this_run - run_so_far);
  for (std::size_t i = index_ + 1; i < runs_.size(); ++i) left += expected(i).value_or(*this_run);
  return left;
}

}  // namespace ringside
