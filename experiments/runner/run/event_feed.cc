#include "experiments/runner/run/event_feed.h"

#include <algorithm>
#include <cmath>

#include "experiments/runner/results/attempts.h"

namespace ringside::runner {
namespace {

constexpr double step_interval_s = 0.1;

std::vector<PlannedRun> planned(std::vector<RunPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const RunPlan& a, const RunPlan& b) {
    return a.listing.place < b.listing.place;
  });
  std::vector<PlannedRun> out;
  for (const RunPlan& plan : plans) out.push_back(planned_run(plan));
  return out;
}

}  // namespace

EventFeed::EventFeed(std::vector<ProgressListener*> listeners, std::function<double()> now,
                     std::function<double()> time_of_day)
    : listeners_(std::move(listeners)),
      now_(std::move(now)),
      time_of_day_(std::move(time_of_day)) {}

void EventFeed::tell(decltype(ProgressEvent::what) what) {
  const ProgressEvent event{time_of_day_(), std::move(what)};
  for (ProgressListener* listener : listeners_) listener->hear(event);
}

void EventFeed::begin(const std::string& experiment, int most_attempts,
                      const std::vector<RunPlan>& runs, const std::vector<RunPlan>& remaining,
                      const std::vector<RunRecord>& rows) {
  remaining_ = remaining;
  left_ = TimeLeft(planned(remaining));
  tell(ComparisonBegan{experiment, most_attempts, planned(runs)});
  const std::vector<const RunRecord*> counting = rows_that_count(rows);
  for (const RunRecord& row : rows) {
    const auto is_it = [&](const RunPlan& run) { return run.id == row.plan.id; };
    if (std::none_of(runs.begin(), runs.end(), is_it)) continue;
    RunEnded ended = run_ended(row);
    ended.kept = true;
    ended.counts = std::find(counting.begin(), counting.end(), &row) != counting.end();
    ended.made_again = std::any_of(remaining.begin(), remaining.end(), is_it);
    tell(std::move(ended));
  }
}

void EventFeed::predict(const RunPlan& plan, const Prediction& prediction) {
  tell(RunPredicted{plan.id, prediction.step_ms, prediction.memory_peak, prediction.error});
}

void EventFeed::begin_run(std::size_t index, int attempt) {
  const double now = now_();
  index_ = index;
  step_told_ = false;
  left_.begin_run(index, now);
  tell(RunBegan{remaining_[index].id, attempt, left_.seconds(now)});
}

void EventFeed::step(const Step& step) {
  const double now = now_();
  const RunPlan& plan = remaining_[index_];
  left_.step(step.steps_done, now);
  const bool in_between = step_told_ && step.steps_done < plan.train.steps;
  if (in_between && now - last_step_told_ < step_interval_s) return;
  step_told_ = true;
  last_step_told_ = now;
  StepDone done{.run = plan.id,
                .step = step.steps_done,
                .step_ms = 1e3 * step.seconds,
                .seconds_left = left_.seconds(now)};
  if (computes(plan) && std::isfinite(step.loss)) done.loss = step.loss;
  if (step.seconds > 0)
    done.samples_per_s = static_cast<double>(plan.train.global_batch) / step.seconds;
  tell(std::move(done));
}

void EventFeed::end_run(const RunRecord& row, bool counts, bool made_again) {
  const double now = now_();
  left_.end_run(now, made_again);
  RunEnded ended = run_ended(row);
  ended.counts = counts;
  ended.made_again = made_again;
  ended.seconds_left = left_.seconds(now);
  tell(std::move(ended));
}

void EventFeed::end(const ComparisonEnded& how) { tell(how); }

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

}  // namespace ringside::runner
