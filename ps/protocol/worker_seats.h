// WorkerSeats: the workers of a server that are done, lost, or followed by a new process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringside::ps {

/// The seats of all workers of the run, one each. A worker whose process ended before its work was
/// done is lost, and its seat is empty. A new process may take it: first it joins, then it works as
/// that worker. A worker that is lost counts as done too. For one thread.
class WorkerSeats {
 public:
  explicit WorkerSeats(int workers)
      : done_(static_cast<std::size_t>(workers)), lost_(done_), joins_(done_) {}

  /// From now on new processes may take empty seats.
  void let_be_taken_again() { taken_again_ = true; }
  void finish(int worker) { done_[at(worker)] = true; }
  void lose(int worker) {
    done_[at(worker)] = lost_[at(worker)] = true;
    joins_[at(worker)] = false;
  }
  /// A new process is about to work in the seat, and then does.
  void join(int worker) {
    done_[at(worker)] = lost_[at(worker)] = false;
    joins_[at(worker)] = true;
  }
  void begin(int worker) { joins_[at(worker)] = false; }

  int count() const { return static_cast<int>(done_.size()); }
  bool are_taken_again() const { return taken_again_; }
  /// Whether the worker has said that it is done, or is lost.
  bool is_done(int worker) const { return done_[at(worker)]; }
  /// Whether the worker is lost, and nobody has taken its seat.
  bool is_lost(int worker) const { return lost_[at(worker)]; }
  /// Whether a process is about to work in the seat.
  bool joins(int worker) const { return joins_[at(worker)]; }
  int done() const { return static_cast<int>(std::count(done_.begin(), done_.end(), true)); }
  bool all_done() const { return done() == count(); }

 private:
  static std::size_t at(int worker) { return static_cast<std::size_t>(worker); }

  std::vector<bool> done_, lost_, joins_;
  bool taken_again_ = false;
};

}  // namespace ringside::ps
