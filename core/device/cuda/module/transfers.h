// Copies between any memory of the host and a GPU, in the order of its compute stream.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "core/device/cuda/module/pinned.h"
#include "core/device/cuda/module/waits.h"

namespace ringside::cuda {

/// The host's side goes through pinned memory, as otherwise the driver would block until the stream
/// has come so far. Thread-safe.
class Transfers {
 public:
  Transfers(EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t stream);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Returns when `from` has been taken over. Waits only where `stream` is further behind than
  /// there is pinned memory.
  void write(std::byte* to, std::span<const std::byte> from);
  /// Waits until `to` is filled.
  void read(const std::byte* from, std::span<std::byte> to);

 private:
  static constexpr std::size_t chunk_bytes = 1 << 20, chunks = 8;

  /// Filled from the front by one write after the other, until it is full.
  struct Chunk {
    PinnedCache::Block block;
    std::size_t used = 0;
    std::optional<Event> last;  // of its copies
  };
  /// One with room.
  Chunk& chunk_locked();

  EventPool& events_;
  PinnedCache& pinned_;
  Waits& waits_;
  const cudaStream_t stream_;
  std::mutex mutex_;  // of what follows: chunks are written in turn
  std::array<Chunk, chunks> ring_;
  std::size_t current_ = 0;
};

}  // namespace ringside::cuda
