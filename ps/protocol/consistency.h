// What may be answered when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside::ps {

/// Throws Error for a consistency that servers do not keep; it says which they do.
void check_consistency(const std::string& consistency);

/// What each worker has pushed to one chunk: `pushes` gradients a step. Bulk synchronous (BSP;
/// Valiant, CACM 1990): nobody sees values, or pushes, before every worker has pushed all that
/// comes earlier.
class Clocks {
 public:
  explicit Clocks(int workers, std::int64_t pushes = 1);

  /// Counts push `number` of `step`. Throws Error for any other than the worker's next one, and
  /// while another worker's earlier one is missing.
  void push(int worker, std::int64_t step, std::int64_t number = 0);
  /// Steps that the worker has pushed whole.
  std::int64_t pushed(int worker) const {
    return pushed_[static_cast<std::size_t>(worker)] / pushes_;
  }
  /// Steps that every worker has pushed: values after as many may be read.
  std::int64_t complete() const;

 private:
  std::int64_t least() const;
  std::string text(std::int64_t step, std::int64_t number) const;

  std::int64_t pushes_;
  std::vector<std::int64_t> pushed_;
};

}  // namespace ringside::ps
