// The source of a comparison's progress events, which tells all listeners.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/runner/run/events.h"
#include "experiments/runner/run/run.h"
#include "experiments/runner/run/time_left.h"

namespace ringside {

/// Makes the events of a comparison, and tells each of them to all listeners at once, in the thread
/// that calls. Of a run's steps the first and the last have an event, and between them at most ten
/// a second: for all others step() reads a clock and returns, so that short steps cost nothing.
class EventFeed {
 public:
  /// `now` returns seconds since some fixed moment, `time_of_day` those since the beginning of
  /// 1970, UTC. The listeners must outlive the feed.
  EventFeed(std::vector<ProgressListener*> listeners, std::function<double()> now,
            std::function<double()> time_of_day);

  /// Begins a comparison of `runs`, of which `remaining` are to be made, in this order. `rows` are
  /// those of earlier runs; rows of other runs are left out.
  void begin(const std::string& experiment, int most_attempts, const std::vector<RunPlan>& runs,
             const std::vector<RunPlan>& remaining, const std::vector<RunRecord>& rows);
  /// Tells the prediction for a run that begins next.
  void predict(const RunPlan& plan, const Prediction& prediction);
  /// Begins attempt number `attempt` (counted from 1) at run `index` of those that are to be made.
  void begin_run(std::size_t index, int attempt);
  void step(const Step& step);
  /// Ends the present run. `counts`: whether the row counts for its run in place of those of
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

}  // namespace ringside
