// What may be answered when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside::ps {

/// How many steps a worker may be ahead of the slowest: 0 is bulk synchronous (BSP), s is stale
/// synchronous (SSP; Ho et al., NIPS 2013), `unbounded` is asynchronous (ASP).
inline constexpr std::int64_t unbounded = -1;

/// The bound of a consistency that servers keep. Throws Error that says which they are.
std::int64_t staleness_bound(const std::string& consistency);

/// The steps that each worker has pushed to one chunk.
class Clocks {
 public:
  Clocks(int workers, std::int64_t bound);

  /// Counts the push of `step`. Throws Error for any other than the worker's next one, and for one
  /// that is further ahead than the bound allows.
  void push(int worker, std::int64_t step);
  std::int64_t pushed(int worker) const { return pushed_[static_cast<std::size_t>(worker)]; }
  /// Whether values may be given to a worker that has pushed `steps` steps.
  bool may_read(std::int64_t steps) const;
  /// Steps that every worker has pushed.
  std::int64_t complete() const;

 private:
  std::vector<std::int64_t> pushed_;
  std::int64_t bound_;
};

}  // namespace ringside::ps
