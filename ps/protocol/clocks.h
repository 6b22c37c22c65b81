// The clocks of workers: the number of steps that each has done.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ps/protocol/consistency.h"

namespace ringside::ps {

/// Counts the gradients that each worker has pushed for one chunk. In each of its steps a worker
/// pushes `pushes` gradients; they are numbered through all steps. So a gradient that arrives
/// twice, late or too early is recognised by its worker, step and chunk.
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
  /// Waits for the worker again, from its push `number` on.
  void come(int worker, std::int64_t number);

  /// The number of the worker's next push.
  const std::vector<std::int64_t>& next() const { return next_; }
  std::int64_t next(int worker) const { return next_[static_cast<std::size_t>(worker)]; }
  bool is_there(int worker) const { return !gone_[static_cast<std::size_t>(worker)]; }
  /// The number of steps of which every worker has pushed every gradient.
  std::int64_t complete() const;

 private:
  std::string text(std::int64_t number) const;

  const Policy& policy_;
  std::int64_t pushes_;
  std::vector<std::int64_t> next_;
  std::vector<bool> gone_;
};

}  // namespace ringside::ps
