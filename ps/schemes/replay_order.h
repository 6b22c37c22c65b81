// The events of all ranges of a run, in an order in which a replay can repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/plan/history.h"

namespace ringside::ps {

/// Walks through what happened to every range of a run. The order of events within a range is that
/// of the record; an event comes once its worker is so far: a push once the worker has offered what
/// it pushes, and a read once the worker asks for values (easgd: or for how far its own move).
/// Workers and ranges are counted from 0.
class ReplayOrder {
 public:
  using Visit = std::function<void(std::size_t range, const RangeEvent& event)>;

  /// The record outlives the walk. Throws Error if the record is empty or not whole, or names a
  /// worker that the run does not have.
  ReplayOrder(const std::vector<ChunkHistory>& record, int workers);

  std::size_t ranges() const { return ranges_.size(); }
  /// How often the worker pushes: the most pushes that any range has seen.
  std::int64_t pushes(std::size_t worker) const { return pushes_[worker]; }

  /// The worker has computed what it pushes next, to every range.
  void offer(std::size_t worker) { ++offered_[worker]; }
  /// The worker wants to read every range once more.
  void ask(std::size_t worker) { ++asked_[worker]; }
  /// Whether the worker has read all that it has asked for.
  bool has_read(std::size_t worker) const;

  /// Visits, range by range, all events that can come now.
  void go_on(const Visit& visit);
  /// Throws Error if events are left that only happen within a run: at its end worker 0 reads once
  /// more, and workers leave.
  void check_end() const;

 private:
  struct Range {
    const ChunkHistory* history;
    EventReader events;
    std::vector<std::int64_t> pushes, reads;  // by worker: how many have come
  };
  bool can_come(const Range& range, const RangeEvent& event) const;

  std::vector<Range> ranges_;
  std::vector<std::int64_t> pushes_, offered_, asked_;  // by worker
};

}  // namespace ringside::ps
