// The events of all ranges of a run, in an order in which a replay can repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/plan/history.h"

namespace ringside::ps {

/// Walks through the recorded events of every range of a run. Events within a range keep the order
/// of the record. An event is visited once its worker is ready: a push once the worker has computed
/// it (offer), and a read once the worker asks for values (easgd: or for the difference from them).
/// Workers and ranges are counted from 0.
class ReplayOrder {
 public:
  using Visit = std::function<void(std::size_t range, const RangeEvent& event)>;

  /// The record outlives the walk. Throws Error if the record is empty or not whole, names a
  /// worker that the run does not have, or has other steps of a push in another range.
  ReplayOrder(const std::vector<ChunkHistory>& record, int workers);

  std::size_t ranges() const { return ranges_.size(); }
  /// The number of the worker's pushes: the maximum over all ranges.
  std::int64_t pushes(std::size_t worker) const { return pushes_[worker]; }

  /// The steps of the worker's push number `push`, from 0.
  std::int64_t steps(std::size_t worker, std::int64_t push) const {
    return steps_[worker][static_cast<std::size_t>(push)];
  }

  /// Notes that the worker has computed its next push to every range.
  void offer(std::size_t worker) { ++offered_[worker]; }
  /// Notes that the worker wants to read every range once more.
  void ask(std::size_t worker) { ++asked_[worker]; }
  /// Whether all reads that the worker has asked for are done.
  bool has_read(std::size_t worker) const;

  /// Visits, range by range, all events whose workers are ready.
  void go_on(const Visit& visit);
  /// Throws Error if events are left, except those at the end of a run: worker 0 reads once more,
  /// and workers leave.
  void check_end() const;

 private:
  struct Range {
    const ChunkHistory* history;
    EventReader events;
    std::vector<std::int64_t> pushes, reads;  // by worker: the number visited
  };
  bool can_come(const Range& range, const RangeEvent& event) const;

  std::vector<Range> ranges_;
  std::vector<std::int64_t> pushes_, offered_, asked_;  // by worker
  std::vector<std::vector<std::int64_t>> steps_;        // by worker and push
};

}  // namespace ringside::ps
