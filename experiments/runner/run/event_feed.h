// EventFeed: the source of a comparison's progress events for all listeners.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/run/events.h"
#include "experiments/runner/run/run.h"

namespace ringside::runner {

/// Estimates the time until all runs are done. A run is expected to take as long as an earlier run
/// of the same case. If there is none, it is expected to take the mean time of all earlier runs, or
/// that of the present run. All times are seconds since some fixed moment.
class TimeLeft {
 public:
  /// `runs` are those that are to be made, in their order.
  explicit TimeLeft(std::vector<PlannedRun> runs = {}) : runs_(std::move(runs)) {}

  void begin_run(std::size_t index, double now);
  void step(std::int64_t steps_done, double now);
  /// `made_again`: another attempt at the run follows.
  void end_run(double now, bool made_again = false);
  /// None before any run has progressed.
  std::optional<double> seconds(double now) const;

 private:
  std::optional<double> expected(std::size_t index) const;

  std::vector<PlannedRun> runs_;
  std::vector<double> seconds_of_runs_;  // 0 for runs that have not ended
  std::size_t index_ = 0;                // of the present run, or of the one that is next
  bool running_ = false;
  double began_ = 0;
  std::int64_t first_steps_ = 0, steps_ = 0;  // done at the first and at the newest report
  double first_reported_ = 0;
};

/// Makes the events of a comparison, and tells each of them to all listeners at once, in the thread
/// that calls. The first and the last step of a run have an event, and between them at most ten
/// steps a second. For all other steps step() reads a clock and returns, so that short steps cost
/// nothing.
class EventFeed {
 public:
  /// `now` returns seconds since some fixed moment, `time_of_day` those since the beginning of
  /// 1970, UTC. The listeners must outlive the feed.
  EventFeed(std::vector<ProgressListener*> listeners, std::function<double()> now,
            std::function<double()> time_of_day);

  /// Begins a comparison of `runs`, of which `remaining` are to be made, in this order. `rows` are
  /// the records of earlier runs; records of other runs are left out.
  void begin(const std::string& experiment, int most_attempts, const std::vector<RunPlan>& runs,
             const std::vector<RunPlan>& remaining, const std::vector<RunRecord>& rows);
  /// Reports the prediction for a run that begins next.
  void predict(const RunPlan& plan, const Prediction& prediction);
  /// Begins attempt number `attempt` (counted from 1) at run `index` of those that are to be made.
  void begin_run(std::size_t index, int attempt);
  void step(const Step& step);
  /// Ends the present run. `counts`: whether the record counts for its run in place of those of
  /// earlier attempts. `made_again`: whether another attempt follows.
  void end_run(const RunRecord& row, bool counts, bool made_again);
  void end(const ComparisonEnded& how);

 private:
  void tell(decltype(ProgressEvent::what) what);

  std::vector<ProgressListener*> listeners_;
  std::function<double()> now_, time_of_day_;
  std::vector<RunPlan> remaining_;
  TimeLeft left_;
  std::size_t index_ = 0;
  double last_step_told_ = 0;
  bool step_told_ = false;  // of the present run
};

}  // namespace ringside::runner
