// The events of all ranges of a run, in an order in which a replay can repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/plan/history.h"

namespace ringside::ps {

/// Walks through the recorded events of every range of a run. Events within a range keep the order
/// of the record. An event is visited once its worker is ready: a push once the worker has computed
/// it (offer), and a read once the worker asks for values (easgd: or for the difference from them).
/// Workers and ranges are counted from 0.
///
/// Several processes may have had a worker's seat, one after the other. Some ranges may lack the
/// last pushes of one that was killed. The worker becomes the next process once it has computed all
/// pushes of the one before, and that asks for the values of every range; it pushes nothing before
/// it has them. What ranges have left of the process before comes meanwhile.
class ReplayOrder {
 public:
  using Visit = std::function<void(std::size_t range, const RangeEvent& event)>;

  /// The record outlives the walk. Throws Error if the record is empty or not whole, names a
  /// worker that the run does not have, or has other steps of a push in another range.
  ReplayOrder(const std::vector<ChunkHistory>& record, int workers);

  std::size_t ranges() const { return ranges_.size(); }
  /// The number of pushes of the worker's process: the maximum over all ranges.
  std::int64_t pushes(std::size_t worker) const {
    return static_cast<std::int64_t>(process(worker).steps.size());
  }
  /// The steps of the process's push number `push`, from 0.
  std::int64_t steps(std::size_t worker, std::int64_t push) const {
    return process(worker).steps[static_cast<std::size_t>(push)];
  }
  /// Whether the worker has pushes to compute.
  bool computes(std::size_t worker) const { return offered_[worker] < pushes(worker); }
  /// If the worker has become another process since the last call: the number of its first push.
  std::optional<std::int64_t> came(std::size_t worker);

  /// Notes that the worker has computed its next push to every range.
  void offer(std::size_t worker) { ++offered_[worker]; }
  /// Notes that the worker wants to read every range once more.
  void ask(std::size_t worker) { ++asked_[worker]; }
  /// Whether all reads that the worker has asked for are done.
  bool has_read(std::size_t worker) const;

  /// Visits, range by range, all events whose workers are ready.
  void go_on(const Visit& visit);
  /// Throws Error if events are left, except those at the end of a run: worker 0 reads once more,
  /// and workers leave or come too late.
  void check_end() const;

 private:
  struct Process {
    std::int64_t first = 0;           // the number of its first push
    std::vector<std::int64_t> steps;  // by push
  };
  /// What has been visited of a worker in a range.
  struct Visited {
    std::size_t process = 0;
    bool gone = false;
    std::int64_t pushes = 0, reads = 0;  // of the process
    std::int64_t leaves = 0;             // how often the worker will still be gone
  };
  struct Range {
    const ChunkHistory* history;
    EventReader events;
    std::vector<Visited> workers;
  };
  const Process& process(std::size_t worker) const { return processes_[worker][process_[worker]]; }
  void read_record(Range& range);
  void take_seats();
  bool can_come(const Range& range, const RangeEvent& event) const;
  void note(Visited& of, const RangeEvent& event) const;

  std::vector<Range> ranges_;
  std::vector<std::vector<Process>> processes_;  // by worker
  std::vector<std::size_t> process_;             // by worker: the present one
  std::vector<std::optional<std::int64_t>> came_;
  std::vector<std::int64_t> offered_, asked_;  // by worker, of its process
};

}  // namespace ringside::ps
