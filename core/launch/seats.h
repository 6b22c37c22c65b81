// Seats: the launcher's part in a run that goes on without some of its workers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/observe/run_record_parts.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The seats of the workers of a run that may lose some (RunPlan::expendable). A worker whose
/// process was killed leaves its seat empty; the other ranks learn that from the store (lost_key).
/// Where seats are taken again (core/plan/worlds.h), a worker may also be told to leave
/// (leave_key), and a new process may take an empty seat: at most faults.restarts of them in place
/// of killed ones, and as many as are added. It gets the plan of the run with the number of the
/// process in RunPlan::generation. Nobody else waits for it or starts again. For one thread.
class Seats {
 public:
  /// How to reach the processes of the run.
  struct Processes {
    std::function<void(int rank, const RunPlan& plan)> start;
    std::function<void(const std::string& key, const std::string& value)> set;
    std::function<void(int rank)> kill;
    std::function<void(const std::string& text)> say;
    std::function<void()> begin_world;  // workers computed at other rates before
  };
  /// The plan outlives this object.
  Seats(const RunPlan& plan, Processes processes);

  /// Whether a rank whose process was killed is a worker that the run can do without.
  bool can_lose(int rank) const;
  /// The process of such a rank was killed; `why` says how.
  void lose(int rank, const std::string& why, double now);
  /// The worker should leave its seat. Returns false if it stays, and says why.
  bool remove(int worker);
  /// A new process should take an empty seat: the first that there is, now or later.
  void add(double now);
  /// A worker says that it leaves; its process ends.
  void say_left(int rank) { left_.insert(rank); }
  bool has_left(int rank) const { return left_.contains(rank); }
  void leave(int rank);

  /// A worker has done so many steps of the run.
  void note_progress(int rank, std::int64_t steps, double now);
  /// A server has ended, so the run is over: processes that have not done a step are ended.
  void end();
  /// Whether the rank's process has taken a seat and not yet done a step there. If it fails, as
  /// when the servers are about to end, the seat is empty again.
  bool begins(int rank) const { return begins_.contains(rank); }

  /// How the workers left that are away, by worker.
  const std::map<int, std::string>& away() const { return away_; }
  /// The worlds of a run whose seats are taken again, if it had several; else none. One that grew
  /// begins with the first step of the process that came, and `down_s` is the time until then since
  /// its seat was left, or since it was added.
  std::vector<WorldPeriod> worlds() const;

 private:
  void empty(int rank, const std::string& why);
  void fill(int rank, double since);
  void begin_period(const std::string& cause);
  int worker_of(int rank) const { return plan_.ranks[static_cast<std::size_t>(rank)].worker; }
  int least() const { return plan_.world - plan_.expendable; }

  const RunPlan& plan_;
  Processes processes_;
  bool taken_again_;
  std::map<int, std::string> away_;    // by worker; the rank of worker w is w
  std::vector<std::int64_t> numbers_;  // by worker: of the process in its seat
  std::set<int> leaving_, left_;       // ranks that were told to leave, and that say they do
  std::map<int, double> begins_;       // ranks whose new process has done no step, since when
  std::vector<WorldPeriod> periods_;
  std::int64_t replaced_ = 0, done_ = 0;  // processes; steps of the worker that has done most
  std::vector<double> added_;             // when processes were added for which no seat is empty
  bool over_ = false;
};

}  // namespace ringside
