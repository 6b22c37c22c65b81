// The one way in which the host waits for a GPU.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Asks instead of blocking in the driver: a kernel of NCCL whose peer is gone never ends, and only
/// a watch (the communicator) knows, and can end it. Thread-safe. A watch is asked by whichever
/// thread waits, so it must not wait itself, nor be held up by a lock that somebody waits under.
class Waits {
 public:
  void watch(Watch& watch);
  /// When it returns, nobody asks the watch any more.
  void unwatch(Watch& watch);

  /// Returns once `reached()` is true; passes on what it, or a watch, throws.
  void until(const std::function<bool()>& reached);

 private:
  std::mutex mutex_;
  std::vector<Watch*> watches_;
};

}  // namespace ringside::cuda
