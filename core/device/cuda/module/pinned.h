// The host's memory that a GPU copies from and to by itself.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device/cuda/module/events.h"

namespace ringside::cuda {

/// Pinned blocks that are used again and again: pinning and unpinning make the driver wait for the
/// GPU. It grows to what was under way at a time and keeps that. Thread-safe.
class PinnedCache {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;  // at least what was asked for
  };

  PinnedCache() = default;
  /// All blocks are back, and their events reached.
  ~PinnedCache();
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;

  /// A block that no copy uses any more. Does not wait: where all of the size are busy, there is
  /// one more.
  Block take(std::size_t bytes);
  /// Back once `until` is reached (null: now).
  void give_back(Block block, std::shared_ptr<const Event> until);

 private:
  struct Free {
    Block block;
    std::shared_ptr<const Event> until;
  };
  std::mutex mutex_;
  std::map<std::size_t, std::deque<Free>> free_;  // by size, the longest free first
  std::vector<std::byte*> all_;
};

}  // namespace ringside::cuda
