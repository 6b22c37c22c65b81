// The clocks of workers: the number of steps that each has done, and whether more are awaited.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ps/protocol/consistency.h"

namespace ringside::ps {

/// Counts the gradients that each worker has pushed for one chunk. In each of its steps a worker
/// pushes `pushes` gradients; they are numbered through all steps. So a gradient that arrives
/// twice, late or too early is recognised by its worker, step and chunk. Knows which workers are
/// there, and from which push on: others are not waited for.
class Clocks {
 public:
  /// The policy outlives the clocks.
  Clocks(const Policy& policy, int workers, std::int64_t pushes = 1);

  /// Counts a push, and returns its number: step * pushes + push. Throws Error if this is not the
  /// worker's next push, or if the worker may not push yet. `version` is that of the chunk.
  std::int64_t push(int worker, std::int64_t step, std::int64_t push, std::int64_t version);
  /// Every worker has pushed all gradients below `number`, the first of a step.
  void restored(std::int64_t number);
  /// The same by worker.
  void restored(std::vector<std::int64_t> next) { next_ = std::move(next); }
  /// The worker's next push has at least this number.
  void skip(int worker, std::int64_t number) { next_[static_cast<std::size_t>(worker)] = number; }
  /// Stops waiting for the worker.
  void leave(int worker);
  /// A new process of the worker is there, and pushes from `number` on.
  void come(int worker, std::int64_t number);

  /// The number of the worker's next push.
  const std::vector<std::int64_t>& next() const { return next_; }
  std::int64_t next(int worker) const { return next_[static_cast<std::size_t>(worker)]; }
  bool is_there(int worker) const { return !gone_[static_cast<std::size_t>(worker)]; }
  bool are_all_there() const;
  /// Whether an update of all workers, the one after `version`, waits for the worker.
  bool is_awaited(int worker, std::int64_t version) const {
    return is_there(worker) && version >= first_[static_cast<std::size_t>(worker)];
  }
  /// Whether any worker can still push a gradient of that update.
  bool can_still_push(std::int64_t version) const;
  /// The number of steps of which every worker has pushed every gradient.
  std::int64_t complete() const;

 private:
  std::string text(std::int64_t number) const;

  const Policy& policy_;
  std::int64_t pushes_;
  std::vector<std::int64_t> next_;
  std::vector<bool> gone_;
  /// By worker: the first update that waits for it, where pushes have the numbers of updates.
  std::vector<std::int64_t> first_;
  /// By worker: a process that has come has not pushed yet. An update that need not have all
  /// workers does not wait for it: it may wait for values of another range itself.
  std::vector<bool> begins_;
};

}  // namespace ringside::ps
