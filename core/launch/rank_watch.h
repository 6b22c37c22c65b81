// RankWatch: says which ranks are slow, stand still, or are stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/launch/standstill_watch.h"
#include "core/launch/straggler_watch.h"
#include "core/observe/beats.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// Listens to the steps, the beats and the stops of a run's processes, and tells the user of those
/// that make others wait. Nobody is given up; a slow worker leaves where faults.remove_slow asks
/// for it. For one thread.
class RankWatch {
 public:
  struct Words {
    std::function<std::string(int process)> name;
    std::function<void(const std::string& line)> say;
    /// Tells a worker to leave the run; returns false if it stays.
    std::function<bool(int process)> remove;
  };
  /// The plan outlives this object.
  RankWatch(const RunPlan& plan, Words words);

  /// The rank has done `done` steps, the last one in `seconds`, of which it computed for
  /// `compute_s` (0: not known).
  void note_step(int process, std::int64_t done, double seconds, double compute_s);
  void note_beat(int process, const Beat& beat);
  /// A signal has stopped the process, or it goes on. A stopped process says nothing itself.
  void note_stop(int process, bool stands, double now);

  /// The rank has another process from now on.
  void forget(int process) { last_step_[static_cast<std::size_t>(process)].clear(); }
  /// From now on all workers have other shares of the batch.
  void begin_world() { stragglers_ = {}, standstill_ = {}; }

  /// " after step 12", for messages about the rank; empty before its first step.
  const std::string& last_step(int process) const {
    return last_step_[static_cast<std::size_t>(process)];
  }
  /// How slow the workers are that were named, by rank.
  const std::map<int, std::string>& slow() const { return slow_; }

 private:
  void note_speed(int process, double compute_s);

  const RunPlan& plan_;
  Words words_;
  StragglerWatch stragglers_;
  StandstillWatch standstill_;
  std::vector<std::string> last_step_;  // by process, like the next
  std::map<int, double> stopped_at_;    // while it stands
  std::map<int, std::string> slow_;
};

}  // namespace ringside
