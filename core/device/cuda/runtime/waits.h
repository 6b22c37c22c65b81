// Waits: blocking of the host until a GPU has reached a point.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Polls instead of blocking in the driver. A kernel of NCCL whose peer is gone never ends; only a
/// watch (the NCCL communicator is one) notices that and can end the kernel. Thread-safe. Any
/// waiting thread may call a watch, so the watch must neither wait itself nor need a lock that a
/// waiting thread holds.
class Waits {
 public:
  void watch(Watch& watch);
  /// Removes the watch. It is not called any more after this returns.
  void unwatch(Watch& watch);

  /// Returns once `reached()` is true. Rethrows what `reached()` or a watch throws.
  void until(const std::function<bool()>& reached);

 private:
  std::mutex mutex_;
  std::vector<Watch*> watches_;
};

}  // namespace ringside::cuda
