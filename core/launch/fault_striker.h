// FaultStriker: makes the faults of [faults] strike the processes of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/faults.h"

namespace ringside {

/// Sends ranks the signals of their faults when these are due; workers slow, hang, poison and flip
/// themselves (core/train/slowdown.h, core/train/own_faults.h). Each fault of the list strikes once
/// in a run, restarts included. With a rate, kills come in exponential intervals, of any rank, both
/// drawn by the seed. For one thread.
class FaultStriker {
 public:
  /// `signal` sends a signal to a rank, `say` tells the user of a fault, and `tell` tells a
  /// server of one that it brings about itself, by its name. The plan outlives this object. `now`
  /// is on any clock, in seconds.
  FaultStriker(const RunPlan& plan, double now, std::function<void(int rank, int number)> signal,
               std::function<void(const std::string&)> say,
               std::function<void(int server, const std::string& fault)> tell);

  /// What to do for faults that change the world of an elastic run; by default, nothing.
  void change_world_by(std::function<void(const Fault&)> change) { change_ = std::move(change); }
  /// A worker has done so many steps.
  void note_progress(int rank, std::int64_t steps, double now);
  /// Call it several times a second.
  void attend(double now);

  /// The plan's faults, with those noted that have struck.
  const FaultsConfig& faults() const { return faults_; }

 private:
  void strike(const Fault& fault, int rank, const std::string& text, double now);
  /// Draws the next random kill.
  void draw(double now);

  const RunPlan& plan_;
  FaultsConfig faults_;
  std::function<void(int, int)> signal_;
  std::function<void(const std::string&)> say_;
  std::function<void(int, const std::string&)> tell_;
  std::function<void(const Fault&)> change_ = [](const Fault&) {};
  std::vector<Fault> listed_;
  std::vector<std::pair<double, int>> continued_;  // when stopped ranks go on
  double kill_at_ = 0;                             // with a rate
  int victim_ = 0;
};

}  // namespace ringside
