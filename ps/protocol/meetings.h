// Meetings: the moments at which all workers of a run that do not wait for each other stand still.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ps/protocol/message.h"

namespace ringside::ps {

/// Where workers do not wait for each other, there is no moment between two steps of the run. So
/// they meet for each checkpoint. Server 0 says when: it lets no worker begin a step beyond the
/// next meeting (Kind::go, Kind::ticket). A worker that stands there waits for all its replies and
/// then asks every server to meet (Kind::meet). Once the requests of all workers are there, nothing
/// is on its way to this server and no gradient waits: it has the state of exactly these steps, and
/// answers after it has copied that. A meeting takes time, but it changes no value and no order: a
/// worker goes on from the values that it had.
///
/// If a worker is lost, there are no more meetings: its state would be missing. Where its seat may
/// be taken again, those that are due meanwhile are left out instead. For one thread.
class Meetings {
 public:
  explicit Meetings(int workers) : requests_(static_cast<std::size_t>(workers)) {}

  /// The run has a meeting after every `every` steps (0: none) and after its last one, `steps`.
  void plan(std::int64_t every, std::int64_t steps);
  /// Workers push after so many steps at a time: they meet after whole numbers of them.
  void set_period(std::int64_t steps) { period_ = steps; }
  /// The run goes on after so many steps.
  void restored(std::int64_t steps) { held_ = steps; }
  /// The run ends with the first meeting after at least so many steps, which workers have begun.
  void end_after(std::int64_t begun);
  void cancel() { cancelled_ = true; }
  /// The worker waits no more.
  void leave(int worker) { requests_[static_cast<std::size_t>(worker)].reset(); }
  /// So many workers are away: meetings are left out until all are back.
  void set_away(int workers) { away_ = workers; }

  bool are_planned() const { return planned_; }
  bool are_cancelled() const { return cancelled_; }
  /// Whether the meeting for which workers wait is not held, and they go on at once.
  bool are_left_out() const { return cancelled_ || away_ > 0; }
  /// The number of steps after which the next meeting is; none if there is none.
  std::optional<std::int64_t> due() const;
  /// The most steps that may be done before the next meeting, or before the end.
  std::int64_t limit() const;
  /// Whether a worker that has done so many steps is at the end of the run.
  bool is_over(std::int64_t done) const;
  /// The reply to a worker that asks whether it may begin another step (Kind::go). Throws Error if
  /// there are no meetings.
  Header go(const Header& request);
  /// The most steps that a worker may have begun after these replies.
  std::int64_t begun() const { return begun_; }

  /// Takes the worker's request to meet. Returns false, and takes nothing, if the meeting was left
  /// out. Throws Error for a second request, or for another meeting than that of the others.
  bool come(int worker, const Header& request);
  /// The workers that wait.
  std::vector<int> waiting() const;
  bool has_come(int worker) const {
    return requests_[static_cast<std::size_t>(worker)].has_value();
  }
  /// The meeting for which workers wait: its number of steps.
  std::int64_t step() const { return step_; }
  /// Ends the meeting. Returns the replies: `version` has its number of steps, or 0 if it was
  /// cancelled or left out.
  std::vector<Header> end();

 private:
  static constexpr std::int64_t no_end = std::numeric_limits<std::int64_t>::max();
  std::int64_t in_whole_periods(std::int64_t steps) const {
    return (steps + period_ - 1) / period_ * period_;
  }

  void check_planned() const;

  bool planned_ = false, cancelled_ = false;
  std::int64_t every_ = 0, last_ = no_end, period_ = 1;
  std::int64_t held_ = 0, step_ = 0;  // the meeting before, and the one for which workers wait
  std::int64_t left_out_ = 0;         // the latest that was
  std::int64_t begun_ = 0;
  int away_ = 0;                                 // workers
  std::vector<std::optional<Header>> requests_;  // by worker
};

}  // namespace ringside::ps
