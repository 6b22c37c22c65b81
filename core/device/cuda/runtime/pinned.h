// Pinned memory of the host, which a GPU copies from and to without the CPU.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device/cuda/runtime/event_pool.h"

namespace ringside::cuda {

/// A cache of pinned blocks, because pinning and unpinning make the driver wait for the GPU. It
/// grows to the most that was in use at a time and keeps that. Thread-safe.
class PinnedCache {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;  // at least the requested size
  };

  PinnedCache() = default;
  /// All blocks must have been given back, and their events reached.
  ~PinnedCache();
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;

  /// Returns a block that no copy uses any more. Does not wait: if all blocks of this size are
  /// busy, it makes another one.
  Block take(std::size_t bytes);
  /// Returns a block to the cache. It is used again once `until` is reached (null: at once).
  void give_back(Block block, std::shared_ptr<const Event> until);

 private:
  struct Free {
    Block block;
    std::shared_ptr<const Event> until;
  };
  std::mutex mutex_;
  std::map<std::size_t, std::deque<Free>> free_;  // by size; longest free first
  std::vector<std::byte*> all_;
};

}  // namespace ringside::cuda
